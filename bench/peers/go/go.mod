module heddle.bench/go

go 1.19
