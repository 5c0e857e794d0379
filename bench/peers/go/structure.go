// SPDX-License-Identifier: MIT
//
// Rows of structure: tasks in a scope, and a task beside others that compute without end.
package main

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// ---- a scope of 8 ----

const children = 8

func scopes(n int) {
	for i := 0; i < n; i++ {
		var wg sync.WaitGroup
		wg.Add(children)
		for j := 0; j < children; j++ {
			go func() { wg.Done() }()
		}
		wg.Wait()
	}
}

func rowNursery() { report("ns", measure(1, scopes)) }

// ---- a victim among hogs ----

const (
	tick      = time.Millisecond
	warmUp    = 50 * tick
	hogRounds = 10000
)

var hogSink atomic.Uint64

// hogTight has no call in its loop: only a signal can stop it.
func hogTight(stop *atomic.Bool) {
	x := uint64(1)
	for !stop.Load() {
		for i := 0; i < hogRounds; i++ {
			x = x*6364136223846793005 + 1442695040888963407
		}
	}
	hogSink.Add(x)
}

//go:noinline
func hogChunk(x uint64) uint64 {
	for i := 0; i < hogRounds; i++ {
		x = x*6364136223846793005 + 1442695040888963407
	}
	return x
}

// hogCalling calls a function again and again, which looks whether to give way.
func hogCalling(stop *atomic.Bool) {
	x := uint64(1)
	for !stop.Load() {
		x = hogChunk(x)
	}
	hogSink.Add(x)
}

// victim wakes at each tick of the window, and returns how late; what had not happened when
// the window ended counts until then.
func victim(first time.Time, ticks int) []float64 {
	late := make([]float64, ticks)
	end := first.Add(time.Duration(ticks) * tick)
	for i := range late {
		due := first.Add(time.Duration(i) * tick)
		time.Sleep(time.Until(due))
		now := time.Now()
		if now.After(end) {
			now = end
		}
		late[i] = float64(now.Sub(due).Nanoseconds())
	}
	return late
}

func rowVictim() {
	ticks := 8 * params["ms"]
	hog := hogTight
	if params["checkpoint"] != 0 {
		hog = hogCalling
	}
	var stop atomic.Bool
	var wg sync.WaitGroup
	first := time.Now().Add(warmUp)
	hogs := params["hogs"] * runtime.GOMAXPROCS(0)
	wg.Add(hogs)
	late := make(chan []float64, 1)
	go func() { late <- victim(first, ticks) }()
	for i := 0; i < hogs; i++ {
		go func() {
			hog(&stop)
			wg.Done()
		}()
	}
	time.Sleep(time.Until(first.Add(time.Duration(ticks) * tick)))
	stop.Store(true)
	wg.Wait()
	reportLatencies(<-late)
}
