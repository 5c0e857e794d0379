// SPDX-License-Identifier: MIT
//
// Rows of channels, and of what Go builds from channels.
package main

import "sync"

// together runs f(0) ... f(count-1) in a goroutine each and waits for all.
func together(count int, f func(i int)) {
	var wg sync.WaitGroup
	wg.Add(count)
	for i := 0; i < count; i++ {
		go func(i int) {
			f(i)
			wg.Done()
		}(i)
	}
	wg.Wait()
}

// expect stops a sample that did not do its work.
func expect(got, want int) {
	if got != want {
		panic("a row's sum is wrong")
	}
}

// sumBelow is 0 + 1 + ... + (n-1).
func sumBelow(n int) int { return n * (n - 1) / 2 }

// ---- one way ----

// stream sends n values from one goroutine to another.
func stream(capacity int) func(n int) {
	return func(n int) {
		values, sum := make(chan int, capacity), make(chan int)
		go func() {
			for i := 0; i < n; i++ {
				values <- i
			}
			close(values)
		}()
		go func() {
			total := 0
			for value := range values {
				total += value
			}
			sum <- total
		}()
		expect(<-sum, sumBelow(n))
	}
}

func rowChanStream() { report("ns", measure(1, stream(params["cap"]))) }

// mpmc: each of 4 producers sends n values, each of 4 consumers receives n.
func mpmc(n int) {
	const side = 4
	values := make(chan int, 1024)
	var sums [side]int
	together(2*side, func(i int) {
		if i < side {
			for j := 0; j < n; j++ {
				values <- j
			}
			return
		}
		total := 0
		for j := 0; j < n; j++ {
			total += <-values
		}
		sums[i-side] = total
	})
	expect(sums[0]+sums[1]+sums[2]+sums[3], side*sumBelow(n))
}

func rowChanMpmc() { report("ns", measure(4, mpmc)) }

// ---- select ----

func select2(c []chan int) int {
	var v int
	select {
	case v = <-c[0]:
	case v = <-c[1]:
	}
	return v
}

func select16(c []chan int) int {
	var v int
	select {
	case v = <-c[0]:
	case v = <-c[1]:
	case v = <-c[2]:
	case v = <-c[3]:
	case v = <-c[4]:
	case v = <-c[5]:
	case v = <-c[6]:
	case v = <-c[7]:
	case v = <-c[8]:
	case v = <-c[9]:
	case v = <-c[10]:
	case v = <-c[11]:
	case v = <-c[12]:
	case v = <-c[13]:
	case v = <-c[14]:
	case v = <-c[15]:
	}
	return v
}

// selects receives n values, which another goroutine sends to each channel in turn.
func selects(cases int, receive func(c []chan int) int) func(n int) {
	return func(n int) {
		c := make([]chan int, cases)
		for i := range c {
			c[i] = make(chan int)
		}
		together(2, func(i int) {
			if i == 0 {
				for j := 0; j < n; j++ {
					c[j%cases] <- j
				}
				return
			}
			total := 0
			for j := 0; j < n; j++ {
				total += receive(c)
			}
			expect(total, sumBelow(n))
		})
	}
}

func rowSelect() {
	switch params["cases"] {
	case 2:
		report("ns", measure(1, selects(2, select2)))
	case 16:
		report("ns", measure(1, selects(16, select16)))
	default:
		usage()
	}
}

// ---- made of channels ----

// oneshots: one goroutine asks n times, with a channel for the answer in each question.
func oneshots(n int) {
	questions := make(chan chan int, 1)
	together(2, func(i int) {
		if i == 0 {
			answer := 0
			for reply := range questions {
				reply <- answer
				answer++
			}
			return
		}
		total := 0
		for j := 0; j < n; j++ {
			reply := make(chan int, 1)
			questions <- reply
			total += <-reply
		}
		close(questions)
		expect(total, sumBelow(n))
	})
}

func rowOneshot() { report("ns", measure(1, oneshots)) }

const (
	listeners     = 4
	broadcastRoom = 64
	broadcastRun  = 32 // messages until the sender waits for all listeners
)

// broadcasts sends n runs of messages to each listener.
func broadcasts(n int) {
	var feeds [listeners]chan int
	for i := range feeds {
		feeds[i] = make(chan int, broadcastRoom)
	}
	done := make(chan int, listeners)
	together(1+listeners, func(i int) {
		if i < listeners {
			total := 0
			for j := 0; j < n; j++ {
				for k := 0; k < broadcastRun; k++ {
					total += <-feeds[i]
				}
				done <- 1
			}
			expect(total, sumBelow(n*broadcastRun))
			return
		}
		message := 0
		for j := 0; j < n; j++ {
			for k := 0; k < broadcastRun; k++ {
				for _, feed := range feeds {
					feed <- message
				}
				message++
			}
			for k := 0; k < listeners; k++ {
				<-done
			}
		}
	})
}

func rowBroadcast() { report("ns", measure(broadcastRun, broadcasts)) }
