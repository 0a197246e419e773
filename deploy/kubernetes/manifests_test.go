// Package kubernetes_test reads the manifests with the types of Kubernetes.
package kubernetes_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"
)

// TestManifests: each document has only fields that its type has, and what selects pods
// selects those of its file.
func TestManifests(t *testing.T) {
	files, err := filepath.Glob("*.yaml")
	if err != nil || len(files) != 2 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var d apps.StatefulSet
		var s core.Service
		var b policy.PodDisruptionBudget
		var n networking.NetworkPolicy
		into := map[string]any{"apps/v1 StatefulSet": &d, "v1 Service": &s, "policy/v1 PodDisruptionBudget": &b, "networking.k8s.io/v1 NetworkPolicy": &n}
		for _, document := range bytes.Split(text, []byte("\n---\n")) {
			var head struct{ APIVersion, Kind string }
			if err := yaml.Unmarshal(document, &head); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			kind := head.APIVersion + " " + head.Kind
			if into[kind] == nil {
				t.Fatalf("%s has %s, or has it twice", file, kind)
			}
			if err := yaml.UnmarshalStrict(document, into[kind]); err != nil {
				t.Errorf("%s, %s: %v", file, kind, err)
			}
			delete(into, kind)
		}
		if len(into) != 0 {
			t.Errorf("%s lacks %v", file, into)
			continue
		}
		name := strings.TrimSuffix(file, ".yaml")
		labels := d.Spec.Template.Labels
		for what, selector := range map[string]map[string]string{"StatefulSet": d.Spec.Selector.MatchLabels, "Service": s.Spec.Selector,
			"PodDisruptionBudget": b.Spec.Selector.MatchLabels, "NetworkPolicy": n.Spec.PodSelector.MatchLabels} {
			if len(selector) != 2 || selector["app.kubernetes.io/component"] != name {
				t.Errorf("%s: the %s selects %v", file, what, selector)
			}
			for k, v := range selector {
				if labels[k] != v {
					t.Errorf("%s: the %s selects no pod of the file", file, what)
				}
			}
		}
		c := d.Spec.Template.Spec.Containers[0]
		var ports []string
		for _, p := range c.Ports {
			ports = append(ports, p.Name)
		}
		asked := []string{c.LivenessProbe.HTTPGet.Port.String(), c.ReadinessProbe.HTTPGet.Port.String(), c.StartupProbe.HTTPGet.Port.String()}
		for _, p := range s.Spec.Ports {
			asked = append(asked, p.TargetPort.String())
		}
		for _, rule := range n.Spec.Ingress {
			for _, p := range rule.Ports {
				asked = append(asked, p.Port.String())
			}
		}
		for _, p := range asked {
			if !slices.Contains(ports, p) {
				t.Errorf("%s: no port of the container is named %q", file, p)
			}
		}
		pod, own := d.Spec.Template.Spec.SecurityContext, c.SecurityContext
		if !*pod.RunAsNonRoot || *pod.RunAsUser != 65532 || !*own.ReadOnlyRootFilesystem || *own.AllowPrivilegeEscalation || !strings.Contains(c.Image, "@sha256:") {
			t.Errorf("%s: the container may do too much, or its image is not named by digest", file)
		}
		// A node with an empty directory takes a database that was set back.
		if claims := d.Spec.VolumeClaimTemplates; len(claims) != 1 || claims[0].Name != "data" || d.Spec.ServiceName != s.Name {
			t.Errorf("%s: the data of a node are not in a claim of its own", file)
		}
		volumes := []string{"data"}
		for _, v := range d.Spec.Template.Spec.Volumes {
			volumes = append(volumes, v.Name)
		}
		for _, m := range c.VolumeMounts {
			if !slices.Contains(volumes, m.Name) {
				t.Errorf("%s: there is no volume %q", file, m.Name)
			}
		}
	}
}
