package process

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// spawner starts all attached processes of a group from one thread. The
// kernel sends a process's parent-death signal when the thread that forked
// it ends. The runtime may end any thread that no goroutine is locked to.
type spawner struct {
	work chan func()
	quit chan struct{}
}

func newSpawner() *spawner {
	s := &spawner{work: make(chan func()), quit: make(chan struct{})}
	go s.run(make(chan struct{}))
	return s
}

// run does the work on one thread that it is locked to. It closes locked when it has that thread.
func (s *spawner) run(locked chan<- struct{}) {
	runtime.LockOSThread() // never unlocked, so that the thread ends with the goroutine
	if syscall.Gettid() == os.Getpid() {
		// The main thread does not end, because the runtime parks it. While this
		// goroutine is locked to it, another goroutine gets another thread.
		elsewhere := make(chan struct{})
		go s.run(elsewhere)
		<-elsewhere
		runtime.UnlockOSThread()
		return
	}
	close(locked)
	for {
		select {
		case f := <-s.work:
			f()
		case <-s.quit:
			return
		}
	}
}

// start runs cmd so that it is killed when this process ends or the spawner is
// closed. The command gets a separate process group. So Ctrl-C at a terminal
// reaches only this process, which decides in which order the others end.
func (s *spawner) start(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error, 1)
	s.work <- func() { started <- cmd.Start() }
	return <-started
}

func (s *spawner) close() { close(s.quit) }

// startDetached runs cmd in a new session, so that it outlives this process.
func startDetached(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd.Start()
}
