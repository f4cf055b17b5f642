package process

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// spawner starts all attached processes of a group from one thread. The kernel
// sends a process's parent-death signal when the thread that forked it ends,
// and the runtime ends threads as it likes, unless a goroutine is locked to one.
type spawner struct {
	work chan func()
	quit chan struct{}
}

func newSpawner() *spawner {
	s := &spawner{work: make(chan func()), quit: make(chan struct{})}
	go s.run(make(chan struct{}))
	return s
}

// run does the work on a thread of its own, and closes locked once it has one.
func (s *spawner) run(locked chan<- struct{}) {
	runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
	if syscall.Gettid() == os.Getpid() {
		// The main thread is the one that does not end: the runtime parks it. While
		// this goroutine has it, another gets another.
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
// closed. It gets a process group of its own, so that Ctrl-C at a terminal
// reaches only this process, which decides the order of ending.
func (s *spawner) start(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error, 1)
	s.work <- func() { started <- cmd.Start() }
	return <-started
}

func (s *spawner) close() { close(s.quit) }

// startDetached runs cmd in a session of its own, to outlive this process.
func startDetached(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd.Start()
}
