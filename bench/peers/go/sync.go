// SPDX-License-Identifier: MIT
//
// Rows of locks, and of blocking calls.
package main

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

const contenders = 64

// ---- locks ----

// mutexes: each goroutine locks n times.
func mutexes(goroutines int) func(n int) {
	return func(n int) {
		var mutex sync.Mutex
		count := 0
		together(goroutines, func(int) {
			for i := 0; i < n; i++ {
				mutex.Lock()
				count++
				mutex.Unlock()
			}
		})
		expect(count, goroutines*n)
	}
}

func rowMutex() { report("ns", measure(contenders, mutexes(contenders))) }

func rowMutexOne() { report("ns", measure(1, mutexes(1))) }

const permits = 4

// semaphoresChan: a channel with room for the permits is the usual semaphore.
func semaphoresChan(n int) {
	taken := make(chan struct{}, permits)
	together(contenders, func(int) {
		for i := 0; i < n; i++ {
			taken <- struct{}{}
			<-taken
		}
	})
}

func semaphoresWeighted(n int) {
	sem := semaphore.NewWeighted(permits)
	together(contenders, func(int) {
		for i := 0; i < n; i++ {
			if sem.Acquire(context.Background(), 1) != nil {
				panic("not acquired")
			}
			sem.Release(1)
		}
	})
}

func rowSem() {
	reportBest("chan", measure(contenders, semaphoresChan),
		"weighted", measure(contenders, semaphoresWeighted))
}

// ---- watch ----

// watch is a value of which readers want the newest only.
type watch struct {
	mutex   sync.Mutex
	changed sync.Cond
	value   int
	version int
}

func newWatch() *watch {
	w := &watch{}
	w.changed.L = &w.mutex
	return w
}

func (w *watch) set(value int) {
	w.mutex.Lock()
	w.value = value
	w.version++
	w.mutex.Unlock()
	w.changed.Broadcast()
}

// next waits for a version after `seen`, which it updates.
func (w *watch) next(seen *int) int {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for w.version == *seen {
		w.changed.Wait()
	}
	*seen = w.version
	return w.value
}

func watches(n int) {
	ask, answer := newWatch(), newWatch()
	together(2, func(i int) {
		seen := 0
		if i == 0 {
			for j := 1; j <= n; j++ {
				answer.set(ask.next(&seen))
			}
			return
		}
		for j := 1; j <= n; j++ {
			ask.set(j)
			expect(answer.next(&seen), j)
		}
	})
}

func rowWatch() { report("ns", measure(1, watches)) }

// ---- blocking calls ----

// Go has no pool for calls that block: any goroutine may make them, and its thread is
// replaced if the call takes long.
func blockingCalls(n int) {
	done := make(chan int)
	total := 0
	for i := 0; i < n; i++ {
		go func() { done <- 1 }()
		total += <-done
	}
	expect(total, n)
}

func rowBlocking() { report("ns", measure(1, blockingCalls)) }
