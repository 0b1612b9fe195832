package main

import (
	"encoding/json"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// note is the payload of every task but those of the latency workload.
type note struct {
	Number  int    `json:"number"`
	To      string `json:"to"`
	Subject string `json:"subject"`
	Body    string `json:"body"`
}

// stamp is the payload of a task of the latency workload; Moment is in Unix nanoseconds.
type stamp struct {
	Number int   `json:"number"`
	Moment int64 `json:"moment"`
}

// payload is the JSON of task number, as long as the order says.
func (b *bench) payload(number int) []byte {
	frame := len(`{"number":,"to":"ann@example.com","subject":"Hi","body":""}`) + len(strconv.Itoa(number))
	body := strings.Repeat("x", max(0, b.PayloadBytes-frame))
	payload, err := json.Marshal(note{Number: number, To: "ann@example.com", Subject: "Hi", Body: body})
	check(err)
	return payload
}

// seen is the set of tasks that have run.
type seen struct {
	bits    []atomic.Uint64
	missing atomic.Int64
	again   atomic.Int64
	n       int
	once    sync.Once
	// all is closed when as many different tasks have run as were asked for.
	all chan struct{}
}

// newSeen waits for n different ones of so many tasks.
func newSeen(n, among int) *seen {
	s := &seen{bits: make([]atomic.Uint64, among/64+1), n: n, all: make(chan struct{})}
	s.missing.Store(int64(n))
	return s
}

func (s *seen) mark(payload []byte) {
	var task note
	check(json.Unmarshal(payload, &task))
	bit := uint64(1) << (task.Number % 64)
	if s.bits[task.Number/64].Or(bit)&bit != 0 {
		s.again.Add(1)
	} else if s.missing.Add(-1) == 0 {
		s.once.Do(func() { close(s.all) })
	}
}

// complete adds the runs to the answer. Tasks beyond n run while the server stops, and are left out.
func (s *seen) complete(found answer) answer {
	found.Ran = s.n - int(max(0, s.missing.Load()))
	found.Again = int(s.again.Load())
	return found
}

// cpu returns the CPU time that this process has used.
func cpu() time.Duration {
	var used syscall.Rusage
	check(syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
