// SPDX-License-Identifier: MIT
//
// The Go side of the benchmark: `go_bench ROW [key=value]...` runs one sample of one
// row, warm-up included, and prints `key value` lines. What each row does, on every
// side, is in bench/README.md.
package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const batch = 1000

// params are the key=value arguments, with what they are if not given.
var params = map[string]int{
	"workers": 1, "ms": 80, "count": 1000000, "cap": 0, "cases": 2, "live": 0,
	"hogs": 1, "checkpoint": 0,
}

// measure finds a repetition count that lasts params["ms"] and returns ns per operation,
// where f(n) performs n*ops operations. The search is the warm-up.
func measure(ops int, f func(n int)) float64 {
	target := time.Duration(params["ms"]) * time.Millisecond
	n := 1
	for {
		start := time.Now()
		f(n)
		took := time.Since(start)
		if took >= target/8 {
			n = int(float64(n)*float64(target)/float64(took)) + 1
			break
		}
		n *= 2
	}
	start := time.Now()
	f(n)
	return float64(time.Since(start).Nanoseconds()) / float64(n) / float64(ops)
}

func report(key string, value float64) { fmt.Printf("%s %.3f\n", key, value) }

// reportBest prints the better of two ways to say the same thing in Go.
func reportBest(nameA string, a float64, nameB string, b float64) {
	best := a
	if b < a {
		best = b
	}
	report("ns", best)
	report("ns_"+nameA, a)
	report("ns_"+nameB, b)
}

// ---- yield ----

func rowYield() {
	report("ns", measure(2, func(n int) {
		var wg sync.WaitGroup
		wg.Add(2)
		for i := 0; i < 2; i++ {
			go func() {
				for j := 0; j < n; j++ {
					runtime.Gosched()
				}
				wg.Done()
			}()
		}
		wg.Wait()
	}))
}

// ---- spawn and join ----

func spawnOneChan(n int) {
	done := make(chan int)
	for i := 0; i < n; i++ {
		go func() { done <- 1 }()
		<-done
	}
}

func spawnOneWait(n int) {
	var wg sync.WaitGroup
	for i := 0; i < n; i++ {
		wg.Add(1)
		go func() { wg.Done() }()
		wg.Wait()
	}
}

func spawnBatchChan(n int) {
	done := make(chan int, batch)
	for i := 0; i < n; i++ {
		for j := 0; j < batch; j++ {
			go func() { done <- 1 }()
		}
		for j := 0; j < batch; j++ {
			<-done
		}
	}
}

func spawnBatchWait(n int) {
	var wg sync.WaitGroup
	for i := 0; i < n; i++ {
		wg.Add(batch)
		for j := 0; j < batch; j++ {
			go func() { wg.Done() }()
		}
		wg.Wait()
	}
}

func rowSpawnOne() {
	reportBest("chan", measure(1, spawnOneChan), "wait", measure(1, spawnOneWait))
}

func rowSpawnBatch() {
	reportBest("chan", measure(batch, spawnBatchChan), "wait", measure(batch, spawnBatchWait))
}

// Go has no threads outside its scheduler; a goroutine locked to its thread is the
// nearest: no other goroutine may run on that thread, so each join crosses threads.
func rowSpawnForeign() {
	runtime.LockOSThread()
	rowSpawnOne()
}

func rowSpawnForeignBatch() {
	runtime.LockOSThread()
	rowSpawnBatch()
}

// ---- chained spawn ----

func link(depth int, done chan int) {
	if depth == 0 {
		done <- 1
		return
	}
	go link(depth-1, done)
}

func rowChain() {
	const depth = 1000
	done := make(chan int)
	report("ns", measure(depth, func(n int) {
		for i := 0; i < n; i++ {
			go link(depth-1, done)
			<-done
		}
	}))
}

// ---- wakes ----

// pingPong does n round trips over two unbuffered channels.
func pingPong(n int, locked bool) {
	ping, pong := make(chan int), make(chan int)
	var wg sync.WaitGroup
	wg.Add(2)
	go func() {
		if locked {
			runtime.LockOSThread()
		}
		for i := 0; i < n; i++ {
			<-ping
			pong <- i
		}
		wg.Done()
	}()
	go func() {
		if locked {
			runtime.LockOSThread()
		}
		for i := 0; i < n; i++ {
			ping <- i
			<-pong
		}
		wg.Done()
	}()
	wg.Wait()
}

func rowPingPong() {
	report("ns", measure(1, func(n int) { pingPong(n, false) }))
}

func rowPingPongThreads() {
	report("ns", measure(1, func(n int) { pingPong(n, true) }))
}

// ring passes a token through `size` goroutines, n times around.
func ring(size, capacity int) func(n int) {
	return func(n int) {
		first := make(chan int, capacity)
		in := first
		for i := 0; i < size-1; i++ {
			out := make(chan int, capacity)
			go func(in, out chan int) {
				for v := range in {
					out <- v
				}
				close(out)
			}(in, out)
			in = out
		}
		for i := 0; i < n; i++ {
			first <- i
			<-in
		}
		close(first)
		<-in
	}
}

func rowRing() {
	const size = 1000
	reportBest("unbuffered", measure(size, ring(size, 0)), "buffered", measure(size, ring(size, 1)))
}

// ---- a million ----

func residentBytes() int64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		panic(err)
	}
	pages, err := strconv.ParseInt(strings.Fields(string(text))[1], 10, 64)
	if err != nil {
		panic(err)
	}
	return pages * int64(os.Getpagesize())
}

func rowMillion() {
	count := params["count"]
	spawnBatchWait(1)
	var wg sync.WaitGroup
	start := time.Now()
	wg.Add(count)
	for i := 0; i < count; i++ {
		go func() { wg.Done() }()
	}
	wg.Wait()
	report("ns", float64(time.Since(start).Nanoseconds())/float64(count))
}

func rowMillionParked() {
	count := params["count"]
	spawnBatchWait(1)
	debug.FreeOSMemory()
	before := residentBytes()

	var finished sync.WaitGroup
	var parked atomic.Int64
	gate, allParked := make(chan int), make(chan int)
	start := time.Now()
	finished.Add(count)
	for i := 0; i < count; i++ {
		go func() {
			if parked.Add(1) == int64(count) {
				allParked <- 1
			}
			<-gate
			finished.Done()
		}()
	}
	<-allParked
	created := time.Since(start)

	debug.FreeOSMemory() // Not timed: garbage is not the goroutines'.
	bytes := residentBytes() - before

	start = time.Now()
	close(gate)
	finished.Wait()
	woken := time.Since(start)
	report("ns", float64((created+woken).Nanoseconds())/float64(count))
	report("ns_create", float64(created.Nanoseconds())/float64(count))
	report("ns_wake", float64(woken.Nanoseconds())/float64(count))
	report("bytes", float64(bytes)/float64(count))
}

var rows = map[string]func(){
	"yield":               rowYield,
	"spawn_one":           rowSpawnOne,
	"spawn_batch":         rowSpawnBatch,
	"spawn_foreign":       rowSpawnForeign,
	"spawn_foreign_batch": rowSpawnForeignBatch,
	"chain":               rowChain,
	"pingpong":            rowPingPong,
	"pingpong_threads":    rowPingPongThreads,
	"ring":                rowRing,
	"million":             rowMillion,
	"million_parked":      rowMillionParked,
	"chan_pingpong":       rowPingPong,
	"chan_stream":         rowChanStream,
	"chan_mpmc":           rowChanMpmc,
	"select":              rowSelect,
	"oneshot":             rowOneshot,
	"broadcast":           rowBroadcast,
	"mutex":               rowMutex,
	"mutex_one":           rowMutexOne,
	"sem":                 rowSem,
	"watch":               rowWatch,
	"timer_cycle":         rowTimerCycle,
	"timer_million":       rowTimerMillion,
	"sleep_late":          rowSleepLate,
	"blocking":            rowBlocking,
	"nursery":             rowNursery,
	"victim":              rowVictim,
	"serve_echo":          rowServeEcho,
	"serve_http":          rowServeHTTP,
	"file_read":           rowFileRead,
}

func usage() {
	fmt.Fprintln(os.Stderr,
		"usage: go_bench ROW [workers=N] [ms=N] [count=N] [cap=N] [cases=2|16] [live=N]\n"+
			"       [hogs=N] [checkpoint=0|1]")
	os.Exit(2)
}

func main() {
	if len(os.Args) < 2 {
		usage()
	}
	row, known := rows[os.Args[1]]
	if !known {
		usage()
	}
	for _, arg := range os.Args[2:] {
		key, text, _ := strings.Cut(arg, "=")
		value, err := strconv.Atoi(text)
		least := 1
		if key == "cap" || key == "live" || key == "checkpoint" {
			least = 0
		}
		if _, known := params[key]; !known || err != nil || value < least {
			usage()
		}
		params[key] = value
	}
	runtime.GOMAXPROCS(params["workers"])
	row()
}
