// Runs one workload of asynq-bench with hibiken/asynq: `peer ROLE ORDER URL`, one line of JSON on standard output.
//
// ROLE is "fill", which enqueues the tasks that a drain starts from, or "measure". ORDER is the JSON of an order of asynq-bench.
// Every option that an order does not name keeps asynq's default. The program ends with its standard input, which asynq-bench keeps open.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

// order is the order of asynq-bench.
type order struct {
	Workload     string `json:"workload"`
	N            int    `json:"n"`
	Concurrency  int    `json:"concurrency"`
	PayloadBytes int    `json:"payload_bytes"`
	Queues       int    `json:"queues"`
	Among        int    `json:"among"`
	Batch        int    `json:"batch"`
}

// answer is the answer that asynq-bench reads.
type answer struct {
	// Cannot is the reason why asynq does not have the workload.
	Cannot string `json:"cannot,omitempty"`
	// Seconds is how long the workload took.
	Seconds float64 `json:"seconds"`
	// CpuUs is the CPU time of this process meanwhile, in microseconds.
	CpuUs float64 `json:"cpu_us"`
	// Ran is how many different tasks ran, Again how many runs repeated one.
	Ran   int `json:"ran"`
	Again int `json:"again"`
	// Waiting is how many tasks wait in the queues at the end.
	Waiting int `json:"waiting"`
	// Micros are the single times that the workload measures, in microseconds.
	Micros []int64 `json:"micros,omitempty"`
}

// fillers is how many goroutines enqueue before a drain.
const fillers = 64

// producers is how many goroutines enqueue in the end-to-end workload, as many as asynq-bench has.
const producers = 64

// between is the time between two tasks of the latency workload, as in asynq-bench.
const between = 137 * time.Millisecond

// warmUp is how many tasks of the latency workload open connections and are not measured.
const warmUp = 10

// bench is one workload under way.
type bench struct {
	order
	redis  asynq.RedisClientOpt
	client *asynq.Client
	look   *redis.Client
	began  time.Time
	cpu    time.Duration
}

func main() {
	if len(os.Args) != 4 {
		fail("usage: peer ROLE ORDER URL")
	}
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	b := bench{}
	if err := json.Unmarshal([]byte(os.Args[2]), &b.order); err != nil {
		fail("order: %v", err)
	}
	options, err := redis.ParseURL(os.Args[3])
	if err != nil {
		fail("url: %v", err)
	}
	b.redis = asynq.RedisClientOpt{Addr: options.Addr}
	b.client = asynq.NewClient(b.redis)
	b.look = redis.NewClient(&redis.Options{Addr: options.Addr})
	say(b.play(os.Args[1]))
}

func (b *bench) play(role string) answer {
	if role == "fill" {
		b.enqueue(max(b.N, b.Among), fillers)
		return answer{Waiting: b.count("pending")}
	}
	switch b.Workload {
	case "enqueue", "enqueue-concurrent":
		callers := 1
		if b.Workload == "enqueue-concurrent" {
			callers = b.Concurrency
		}
		b.start()
		return b.counted(b.stop(answer{Micros: b.enqueue(b.N, callers)}))
	case "enqueue-bulk":
		b.start()
		return b.counted(b.stop(answer{Micros: b.enqueueBulk()}))
	case "drain":
		return b.drain()
	case "end-to-end":
		return b.endToEnd()
	case "latency":
		return b.latency()
	case "idle":
		b.serve(func([]byte) {})
		select {} // asynq-bench reads Redis's counters meanwhile, and ends this process or its standard input.
	}
	return answer{Cannot: "asynq 0.26 has no call for it"}
}

func (b *bench) drain() answer {
	seen := newSeen(b.N, max(b.N, b.Among))
	b.start()
	server := b.serve(seen.mark)
	<-seen.all
	if b.Among == 0 {
		b.acknowledged()
	}
	found := b.stop(answer{})
	server.Shutdown()
	return seen.complete(found)
}

func (b *bench) endToEnd() answer {
	seen := newSeen(b.N, b.N)
	server := b.serve(seen.mark)
	b.start()
	micros := b.enqueue(b.N, producers)
	<-seen.all
	b.acknowledged()
	found := b.stop(answer{Micros: micros})
	server.Shutdown()
	return seen.complete(found)
}

func (b *bench) latency() answer {
	started := make(chan int64, 1)
	server := b.serve(func(payload []byte) {
		now := time.Now().UnixNano()
		var s stamp
		check(json.Unmarshal(payload, &s))
		if s.Number < warmUp {
			started <- -1
		} else {
			started <- (now - s.Moment) / 1000
		}
	})
	var micros []int64
	go func() {
		for number := 0; number < b.N+warmUp; number++ {
			payload, err := json.Marshal(stamp{Number: number, Moment: time.Now().UnixNano()})
			check(err)
			_, err = b.client.Enqueue(asynq.NewTask("stamp", payload), asynq.Queue("bench"))
			check(err)
			time.Sleep(between)
		}
	}()
	for range b.N + warmUp {
		if took := <-started; took >= 0 {
			micros = append(micros, took)
		}
	}
	server.Shutdown()
	return answer{Ran: len(micros), Micros: micros}
}

// serve starts a server with asynq's defaults on the order's queues; handle gets each payload.
func (b *bench) serve(handle func([]byte)) *asynq.Server {
	server := asynq.NewServer(b.redis, asynq.Config{
		Concurrency: b.Concurrency,
		Queues:      b.queues(),
		LogLevel:    asynq.ErrorLevel,
	})
	check(server.Start(asynq.HandlerFunc(func(_ context.Context, task *asynq.Task) error {
		handle(task.Payload())
		return nil
	})))
	return server
}

// enqueue stores tasks 0 to n-1 from so many goroutines and returns how long each call took, in microseconds.
func (b *bench) enqueue(n, callers int) []int64 {
	return b.enqueueFrom(0, n, callers)
}

// enqueueBulk is what an asynq program does with many tasks at once, for which asynq has no call: a goroutine per task.
func (b *bench) enqueueBulk() []int64 {
	var micros []int64
	for from := 0; from < b.N; from += b.Batch {
		called, to := time.Now(), min(b.N, from+b.Batch)
		b.enqueueFrom(from, to, to-from)
		micros = append(micros, time.Since(called).Microseconds())
	}
	return micros
}

func (b *bench) enqueueFrom(from, to, callers int) []int64 {
	var wait sync.WaitGroup
	micros := make([]int64, to-from)
	share := (to - from + callers - 1) / callers
	for first := from; first < to; first += share {
		wait.Add(1)
		go func() {
			defer wait.Done()
			for number := first; number < min(to, first+share); number++ {
				called := time.Now()
				_, err := b.client.Enqueue(asynq.NewTask("note", b.payload(number)), asynq.Queue(b.queue(number)))
				check(err)
				micros[number-from] = time.Since(called).Microseconds()
			}
		}()
	}
	wait.Wait()
	return micros
}

func (b *bench) queue(number int) string {
	if b.Queues > 1 {
		return fmt.Sprintf("bench-%d", number%b.Queues)
	}
	return "bench"
}

func (b *bench) queues() map[string]int {
	queues := map[string]int{}
	for number := range max(1, b.Queues) {
		queues[b.queue(number)] = 1
	}
	return queues
}

// count returns how many ids the lists of this name hold in all queues.
func (b *bench) count(list string) int {
	pipe, ctx := b.look.Pipeline(), context.Background()
	for queue := range b.queues() {
		pipe.LLen(ctx, "asynq:{"+queue+"}:"+list)
	}
	lengths, err := pipe.Exec(ctx)
	check(err)
	sum := 0
	for _, length := range lengths {
		sum += int(length.(*redis.IntCmd).Val())
	}
	return sum
}

// acknowledged waits until no task is pending or active, with a look every 200 µs.
func (b *bench) acknowledged() {
	for b.count("pending")+b.count("active") > 0 {
		time.Sleep(200 * time.Microsecond)
	}
}

func (b *bench) start() {
	b.cpu, b.began = cpu(), time.Now()
}

func (b *bench) stop(found answer) answer {
	found.Seconds = time.Since(b.began).Seconds()
	found.CpuUs = float64((cpu() - b.cpu).Microseconds())
	return found
}

// counted adds how many tasks wait, which takes time and so is asked behind stop.
func (b *bench) counted(found answer) answer {
	found.Waiting = b.count("pending")
	return found
}

func say(found answer) {
	check(json.NewEncoder(os.Stdout).Encode(found))
}

func check(err error) {
	if err != nil {
		fail("%v", err)
	}
}

func fail(format string, words ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", words...)
	os.Exit(1)
}
