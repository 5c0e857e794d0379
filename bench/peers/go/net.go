// SPDX-License-Identifier: MIT
//
// Servers of the rows of I/O, and reading of files. bench/README.md says what each does.
package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
)

const fileBytes, pieceBytes = 64 << 20, 64 << 10

func listen() net.Listener {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(listener.Addr())
	return listener
}

func echo(conn net.Conn) {
	defer conn.Close()
	buffer := make([]byte, 32<<10)
	for {
		n, err := conn.Read(buffer)
		if err != nil {
			return
		}
		if _, err = conn.Write(buffer[:n]); err != nil {
			return
		}
	}
}

func rowServeEcho() {
	listener := listen()
	for {
		conn, err := listener.Accept()
		if err != nil {
			panic(err)
		}
		go echo(conn)
	}
}

func rowServeHTTP() {
	hello := []byte("Hello, world\n")
	panic(http.Serve(listen(), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		w.Write(hello)
	})))
}

func rowFileRead() {
	file, err := os.CreateTemp("", "go_bench")
	if err != nil {
		panic(err)
	}
	os.Remove(file.Name())
	if _, err = file.Write(make([]byte, fileBytes)); err != nil {
		panic(err)
	}
	piece := make([]byte, pieceBytes)
	report("ns", measure(1, func(n int) {
		for i := 0; i < n; i++ {
			at := int64(i) * pieceBytes % fileBytes
			if got, err := file.ReadAt(piece, at); got != pieceBytes {
				panic(err)
			}
		}
	}))
}
