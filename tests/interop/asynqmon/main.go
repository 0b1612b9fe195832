// Command asynqmon answers requests with the handler of the released asynqmon, without a socket.
//
//	asynqmon <redis address> <request>...   prints one JSON object per request: status, body
//
// A request is a method and a path: "GET /api/queues".
//
// It is a module of its own, so that it is built with the versions that asynqmon was released with.
package main

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"strings"

	"github.com/hibiken/asynq"
	"github.com/hibiken/asynqmon"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: asynqmon <redis address> <request>...")
		os.Exit(2)
	}
	handler := asynqmon.New(asynqmon.Options{
		RootPath:     "/mon",
		RedisConnOpt: asynq.RedisClientOpt{Addr: os.Args[1]},
	})
	defer handler.Close()
	out := json.NewEncoder(os.Stdout)
	for _, request := range os.Args[2:] {
		method, path, _ := strings.Cut(request, " ")
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, httptest.NewRequest(method, "/mon"+path, nil))
		out.Encode(map[string]any{"status": recorder.Code, "body": recorder.Body.String()})
	}
}
