package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/hibiken/asynq"
)

// request is one line of the standard input.
type request struct {
	Op      string            `json:"op"`
	Queue   string            `json:"queue"`
	ID      string            `json:"id"`
	State   string            `json:"state"`
	Group   string            `json:"group"`
	Type    string            `json:"type"`
	Payload string            `json:"payload"`
	Headers map[string]string `json:"headers"`
	Options options           `json:"options"`
	Force   bool              `json:"force"`
}

// options are those of one enqueue; an absent field is not set.
type options struct {
	Retry     *int   `json:"retry"`
	Timeout   int    `json:"timeout_s"`
	Unique    int    `json:"unique_s"`
	Delay     int    `json:"delay_ms"`
	Retention int    `json:"retention_s"`
	TaskID    string `json:"task_id"`
	Group     string `json:"group"`
}

// answer is one line of the standard output.
type answer struct {
	Error string `json:"error,omitempty"`
	Value any    `json:"value,omitempty"`
}

// task is the inspector's view of a task, in the words that the Rust side uses as well.
type task struct {
	ID        string            `json:"id"`
	Queue     string            `json:"queue"`
	Type      string            `json:"type"`
	Payload   string            `json:"payload"`
	State     string            `json:"state"`
	MaxRetry  int               `json:"max_retry"`
	Retried   int               `json:"retried"`
	LastErr   string            `json:"last_error"`
	Timeout   float64           `json:"timeout_s"`
	Retention float64           `json:"retention_s"`
	Group     string            `json:"group"`
	Result    string            `json:"result"`
	Headers   map[string]string `json:"headers"`
	Orphaned  bool              `json:"orphaned"`
}

func talk(redis asynq.RedisClientOpt) {
	client, inspector := asynq.NewClient(redis), asynq.NewInspector(redis)
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var r request
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			fail("request: %v", err)
		}
		value, err := do(client, inspector, r)
		if err != nil {
			say(answer{Error: err.Error()})
		} else {
			say(answer{Value: value})
		}
	}
}

func do(client *asynq.Client, inspector *asynq.Inspector, r request) (any, error) {
	switch r.Op {
	case "enqueue":
		created := asynq.NewTaskWithHeaders(r.Type, []byte(r.Payload), r.Headers, enqueueOptions(r)...)
		return shown(client.Enqueue(created))
	case "task":
		return shown(inspector.GetTaskInfo(r.Queue, r.ID))
	case "tasks":
		return list(inspector, r)
	case "queues":
		return inspector.Queues()
	case "queue":
		return inspector.GetQueueInfo(r.Queue)
	case "history":
		return inspector.History(r.Queue, 3)
	case "groups":
		return inspector.Groups(r.Queue)
	case "servers":
		return inspector.Servers()
	case "schedulers":
		return inspector.SchedulerEntries()
	case "pause":
		return true, inspector.PauseQueue(r.Queue)
	case "resume":
		return true, inspector.UnpauseQueue(r.Queue)
	case "cancel":
		return true, inspector.CancelProcessing(r.ID)
	case "run":
		return true, inspector.RunTask(r.Queue, r.ID)
	case "archive":
		return true, inspector.ArchiveTask(r.Queue, r.ID)
	case "delete":
		return true, inspector.DeleteTask(r.Queue, r.ID)
	case "run_all_archived":
		return inspector.RunAllArchivedTasks(r.Queue)
	case "delete_all_completed":
		return inspector.DeleteAllCompletedTasks(r.Queue)
	case "delete_queue":
		return true, inspector.DeleteQueue(r.Queue, r.Force)
	}
	return nil, fmt.Errorf("peer does not know %q", r.Op)
}

func enqueueOptions(r request) []asynq.Option {
	seconds := func(n int) time.Duration { return time.Duration(n) * time.Second }
	given := []asynq.Option{asynq.Queue(r.Queue)}
	o := r.Options
	if o.Retry != nil {
		given = append(given, asynq.MaxRetry(*o.Retry))
	}
	if o.Timeout > 0 {
		given = append(given, asynq.Timeout(seconds(o.Timeout)))
	}
	if o.Unique > 0 {
		given = append(given, asynq.Unique(seconds(o.Unique)))
	}
	if o.Delay > 0 {
		given = append(given, asynq.ProcessIn(time.Duration(o.Delay)*time.Millisecond))
	}
	if o.Retention > 0 {
		given = append(given, asynq.Retention(seconds(o.Retention)))
	}
	if o.TaskID != "" {
		given = append(given, asynq.TaskID(o.TaskID))
	}
	if o.Group != "" {
		given = append(given, asynq.Group(o.Group))
	}
	return given
}

func list(inspector *asynq.Inspector, r request) (any, error) {
	var found []*asynq.TaskInfo
	var err error
	switch r.State {
	case "active":
		found, err = inspector.ListActiveTasks(r.Queue)
	case "pending":
		found, err = inspector.ListPendingTasks(r.Queue)
	case "scheduled":
		found, err = inspector.ListScheduledTasks(r.Queue)
	case "retry":
		found, err = inspector.ListRetryTasks(r.Queue)
	case "archived":
		found, err = inspector.ListArchivedTasks(r.Queue)
	case "completed":
		found, err = inspector.ListCompletedTasks(r.Queue)
	case "aggregating":
		found, err = inspector.ListAggregatingTasks(r.Queue, r.Group)
	default:
		return nil, fmt.Errorf("no state %q", r.State)
	}
	if err != nil {
		return nil, err
	}
	tasks := make([]task, 0, len(found))
	for _, info := range found {
		tasks = append(tasks, seen(info))
	}
	return tasks, nil
}

func shown(info *asynq.TaskInfo, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return seen(info), nil
}

func seen(info *asynq.TaskInfo) task {
	return task{
		ID: info.ID, Queue: info.Queue, Type: info.Type, Payload: string(info.Payload),
		State: strings.ToLower(info.State.String()), MaxRetry: info.MaxRetry, Retried: info.Retried,
		LastErr: info.LastErr, Timeout: info.Timeout.Seconds(), Retention: info.Retention.Seconds(),
		Group: info.Group, Result: string(info.Result), Headers: info.Headers, Orphaned: info.IsOrphaned,
	}
}
