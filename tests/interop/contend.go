// contend PATH ROUNDS SCENE RECIPE: the same as contend.c, as go-zookeeper's contender: lock.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/samuel/go-zookeeper/zk"
)

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "go:", err)
		os.Exit(1)
	}
}

func visit(scene string) {
	own := fmt.Sprintf("w.go.%d", os.Getpid())
	check(os.WriteFile(filepath.Join(scene, own), nil, 0600))
	others, err := os.ReadDir(scene)
	check(err)
	for _, entry := range others {
		pid, err := strconv.Atoi(entry.Name()[strings.LastIndex(entry.Name(), ".")+1:])
		check(err)
		if pid == os.Getpid() {
			continue
		}
		if syscall.Kill(pid, 0) != nil {
			os.Remove(filepath.Join(scene, entry.Name()))
			continue
		}
		fmt.Println("OVERLAP", own, "with", entry.Name())
	}
	check(os.Remove(filepath.Join(scene, own)))
}

func main() {
	rounds, err := strconv.Atoi(os.Args[2])
	check(err)
	quiet := func(c *zk.Conn) { c.SetLogger(nobody{}) }
	conn, _, err := zk.Connect(strings.Split(os.Getenv("ZKLOCK_SERVERS"), ","), 15*time.Second, quiet)
	check(err)
	lock := zk.NewLock(conn, os.Args[1], zk.WorldACL(zk.PermAll))
	for ; rounds > 0; rounds-- {
		check(lock.Lock())
		visit(os.Args[3])
		fmt.Println("round go")
		check(lock.Unlock())
	}
	conn.Close()
}

type nobody struct{}

func (nobody) Printf(string, ...interface{}) {}
