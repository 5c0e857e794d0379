module heddle.bench/go

go 1.19

require golang.org/x/sync v0.0.0

// Debian's golang-golang-x-sync-dev.
replace golang.org/x/sync => /usr/share/gocode/src/golang.org/x/sync
