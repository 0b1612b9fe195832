// Command asynqmon answers GET requests with the handler of the released asynqmon, without a socket.
//
//	asynqmon <redis address> <path>...   prints one JSON object per path: path, status, body
//
// It is a module of its own, so that it is built with the versions that asynqmon was released with.
package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"

	"github.com/hibiken/asynq"
	"github.com/hibiken/asynqmon"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: asynqmon <redis address> <path>...")
		os.Exit(2)
	}
	handler := asynqmon.New(asynqmon.Options{
		RootPath:     "/mon",
		RedisConnOpt: asynq.RedisClientOpt{Addr: os.Args[1]},
	})
	defer handler.Close()
	out := json.NewEncoder(os.Stdout)
	for _, path := range os.Args[2:] {
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/mon"+path, nil))
		out.Encode(map[string]any{"path": path, "status": recorder.Code, "body": recorder.Body.String()})
	}
}
