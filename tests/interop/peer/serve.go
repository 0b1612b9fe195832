package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/hibiken/asynq"
)

// settings are the queues and the options of a worker.
type settings struct {
	Queues      map[string]int `json:"queues"`
	Concurrency int            `json:"concurrency"`
	// Journal is a file that gets one line per task that succeeded, written in one call, so that the line survives kill -9.
	Journal string `json:"journal"`
	// Aggregate makes one task of each group that rests for a second.
	Aggregate bool `json:"aggregate"`
}

// order is the payload of every task of the tests, and tells the handler what to do.
type order struct {
	Do   string `json:"do"`
	Text string `json:"text"`
}

// event is an event of the worker, printed as one line of JSON.
type event struct {
	Event   string            `json:"event"`
	ID      string            `json:"id,omitempty"`
	Type    string            `json:"type,omitempty"`
	Payload string            `json:"payload,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	Retried int               `json:"retried"`
}

func serve(redis asynq.RedisClientOpt, s settings) {
	journal := io.Discard
	if s.Journal != "" {
		file, err := os.OpenFile(s.Journal, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			fail("journal: %v", err)
		}
		journal = file
	}
	config := asynq.Config{
		Queues:                   s.Queues,
		Concurrency:              s.Concurrency,
		TaskCheckInterval:        200 * time.Millisecond,
		DelayedTaskCheckInterval: 500 * time.Millisecond,
		RetryDelayFunc:           retryDelay,
		LogLevel:                 asynq.ErrorLevel,
	}
	if s.Aggregate {
		config.GroupGracePeriod = time.Second
		config.GroupAggregator = asynq.GroupAggregatorFunc(aggregate)
	}
	server := asynq.NewServer(redis, config)
	client := asynq.NewClient(redis)
	handler := asynq.HandlerFunc(func(ctx context.Context, t *asynq.Task) error { return handle(ctx, t, client, journal) })
	if err := server.Start(handler); err != nil {
		fail("start: %v", err)
	}
	say(event{Event: "ready"})
	// The test closes the input when the worker should leave.
	io.Copy(io.Discard, os.Stdin)
	server.Shutdown()
	say(event{Event: "left"})
}

// retryDelay is short for a task that succeeds next time, and long for any other, whose state the test has to see.
func retryDelay(_ int, _ error, t *asynq.Task) time.Duration {
	var o order
	if json.Unmarshal(t.Payload(), &o) == nil && strings.HasSuffix(o.Do, " once") {
		return time.Second
	}
	return time.Hour
}

// aggregate makes one task of the texts of all tasks.
func aggregate(group string, tasks []*asynq.Task) *asynq.Task {
	texts := make([]string, 0, len(tasks))
	for _, t := range tasks {
		var o order
		if json.Unmarshal(t.Payload(), &o) == nil {
			texts = append(texts, o.Text)
		}
	}
	payload, _ := json.Marshal(order{Do: "succeed", Text: group + ": " + strings.Join(texts, ",")})
	return asynq.NewTask("interop:do", payload, asynq.Retention(time.Hour))
}

func handle(ctx context.Context, t *asynq.Task, client *asynq.Client, journal io.Writer) error {
	id, _ := asynq.GetTaskID(ctx)
	retried, _ := asynq.GetRetryCount(ctx)
	var o order
	if err := json.Unmarshal(t.Payload(), &o); err != nil {
		return err
	}
	say(event{Event: "start", ID: id, Type: t.Type(), Payload: string(t.Payload()), Headers: t.Headers(), Retried: retried})
	switch o.Do {
	case "succeed":
	case "fail":
		return errors.New(o.Text)
	case "fail once":
		if retried == 0 {
			return errors.New(o.Text)
		}
	case "panic":
		panic(o.Text)
	case "give up":
		return fmt.Errorf("%s: %w", o.Text, asynq.SkipRetry)
	case "revoke":
		return fmt.Errorf("%s: %w", o.Text, asynq.RevokeTask)
	case "hang once":
		// The text names a file that the first run leaves behind.
		if marker, err := os.OpenFile(o.Text, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644); err == nil {
			marker.Close()
			<-ctx.Done()
			return ctx.Err()
		}
	case "hang":
		<-ctx.Done()
		return ctx.Err()
	case "answer":
		if _, err := t.ResultWriter().Write([]byte(o.Text)); err != nil {
			return err
		}
	case "pass on":
		// The text names the queue of the next task, which gets the headers of this one.
		payload, _ := json.Marshal(order{Do: "succeed"})
		if _, err := client.Enqueue(asynq.NewTaskWithHeaders(t.Type(), payload, t.Headers(), asynq.Queue(o.Text))); err != nil {
			return err
		}
	default:
		return fmt.Errorf("no order %q", o.Do)
	}
	fmt.Fprintf(journal, "%s\n", id)
	say(event{Event: "done", ID: id})
	return nil
}
