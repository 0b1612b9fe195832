// Command peer is the Go side of the interop tests: a program that uses hibiken/asynq as its users do.
//
//	peer talk  <redis address>             answers requests, one JSON object per line, on its standard input
//	peer serve <redis address> <settings>  is a worker that prints its events on its standard output
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/hibiken/asynq"
)

func main() {
	if len(os.Args) < 3 {
		fail("usage: peer talk|serve <redis address> [settings]")
	}
	redis := asynq.RedisClientOpt{Addr: os.Args[2]}
	switch os.Args[1] {
	case "talk":
		talk(redis)
	case "serve":
		var settings settings
		if err := json.Unmarshal([]byte(os.Args[3]), &settings); err != nil {
			fail("settings: %v", err)
		}
		serve(redis, settings)
	default:
		fail("peer knows talk and serve, not %q", os.Args[1])
	}
}

func fail(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
	os.Exit(2)
}

// say writes one line of JSON in one write, so that lines of several goroutines never mix.
func say(value any) {
	line, err := json.Marshal(value)
	if err != nil {
		fail("%v", err)
	}
	os.Stdout.Write(append(line, '\n'))
}
