// SPDX-License-Identifier: MIT
//
// Rows of timers. All sides draw the same delays.
package main

import (
	"runtime"
	"sort"
	"sync"
	"sync/atomic"
	"time"
)

// lcg draws the delays.
type lcg uint64

func (x *lcg) below(limit int) int {
	*x = *x*6364136223846793005 + 1442695040888963407
	return int(uint64(*x)>>33) % limit
}

// ms draws a delay of first ... first+span-1 milliseconds.
func (x *lcg) ms(first, span int) time.Duration {
	return time.Duration(first+x.below(span)) * time.Millisecond
}

func ignore() {}

// startTimers fills `timers` with delays of first ... first+span-1 milliseconds.
func startTimers(timers []*time.Timer, first, span int) {
	draw := lcg(1)
	for i := range timers {
		timers[i] = time.AfterFunc(draw.ms(first, span), ignore)
	}
}

func stopTimers(timers []*time.Timer) {
	for _, timer := range timers {
		timer.Stop()
	}
}

func timerCycle(n int) {
	draw := lcg(1)
	for i := 0; i < n; i++ {
		time.AfterFunc(draw.ms(1, 1000), ignore).Stop()
	}
}

func rowTimerCycle() {
	const hour = 3600 * 1000
	live := make([]*time.Timer, params["live"])
	startTimers(live, hour, hour)
	report("ns", measure(1, timerCycle))
	stopTimers(live)
}

// timersNs starts all, then stops all in the same order.
func timersNs(timers []*time.Timer) float64 {
	start := time.Now()
	startTimers(timers, 10000, 60000)
	stopTimers(timers)
	return float64(time.Since(start).Nanoseconds()) / float64(len(timers))
}

func rowTimerMillion() {
	timersNs(make([]*time.Timer, batch))
	report("ns", timersNs(make([]*time.Timer, params["count"])))
}

// ---- lateness on busy CPUs ----

func compute(took time.Duration) {
	for start := time.Now(); time.Since(start) < took; {
	}
}

func sleepOnce(draw *lcg) (late float64) {
	delay := draw.ms(1, 10)
	start := time.Now()
	time.Sleep(delay)
	return float64((time.Since(start) - delay).Nanoseconds())
}

// sleepUntil sleeps again and again until `end`; it returns how late each sleep was,
// without the first, which is the warm-up.
func sleepUntil(end time.Time, draw lcg) (late []float64) {
	sleepOnce(&draw)
	for time.Now().Before(end) {
		late = append(late, sleepOnce(&draw))
	}
	return late
}

// reportLatencies sorts them and prints their median and p99.
func reportLatencies(ns []float64) {
	sort.Float64s(ns)
	report("ns", ns[len(ns)/2])
	report("ns_p99", ns[len(ns)*99/100])
}

func rowSleepLate() {
	const busy, sleepers = 4, 100
	var stop atomic.Bool
	var all []float64
	var mutex sync.Mutex
	for i := 0; i < busy; i++ {
		go func() {
			for !stop.Load() {
				compute(20 * time.Microsecond)
				runtime.Gosched()
			}
		}()
	}
	end := time.Now().Add(time.Duration(2*params["ms"]) * time.Millisecond)
	together(sleepers, func(i int) {
		late := sleepUntil(end, lcg(i+1))
		mutex.Lock()
		all = append(all, late...)
		mutex.Unlock()
	})
	stop.Store(true)
	reportLatencies(all)
}
