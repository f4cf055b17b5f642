package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestTheAPIServerCompressesNoWatch(t *testing.T) {
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	const text = `{apiVersion: v1, kind: Config, current-context: c, clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}], contexts: [{name: c, context: {cluster: c}}]}`
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	config, err := restConfig(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	if !config.DisableCompression {
		t.Error("the client asks for compressed answers")
	}
}
