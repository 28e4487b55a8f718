// contend PATH ROUNDS RECIPE: the same as contend.c, as go-zookeeper's contender: lock.
package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/samuel/go-zookeeper/zk"
)

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "go:", err)
		os.Exit(1)
	}
}

func printTime(event string) {
	fmt.Println(time.Now().UnixNano(), event, "w go", os.Getpid())
}

func main() {
	rounds, err := strconv.Atoi(os.Args[2])
	check(err)
	quiet := func(c *zk.Conn) { c.SetLogger(nobody{}) }
	conn, _, err := zk.Connect(strings.Split(os.Getenv("ZKLOCK_SERVERS"), ","), 15*time.Second, quiet)
	check(err)
	_, _, err = conn.Exists("/")
	check(err)
	fmt.Println("ready")
	os.Stdin.Read(make([]byte, 1))
	lock := zk.NewLock(conn, os.Args[1], zk.WorldACL(zk.PermAll))
	for ; rounds > 0; rounds-- {
		check(lock.Lock())
		printTime("in")
		time.Sleep(time.Millisecond)
		printTime("out")
		fmt.Println("round go")
		check(lock.Unlock())
	}
	conn.Close()
}

type nobody struct{}

func (nobody) Printf(string, ...interface{}) {}
