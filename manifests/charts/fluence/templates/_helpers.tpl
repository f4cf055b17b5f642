{{/* The labels by which Services and Deployments find pods; the argument is the component. */}}
{{- define "fluence.selector" -}}
app.kubernetes.io/name: fluence
app.kubernetes.io/component: {{ . }}
{{- end }}

{{/* The labels of every object; the argument is the root. */}}
{{- define "fluence.labels" -}}
app.kubernetes.io/name: fluence
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{/* An image's name; the argument is a dict of root and image. */}}
{{- define "fluence.image" -}}
{{- $registry := .image.registry | default .root.Values.image.registry -}}
{{- if .image.digest -}}
{{ $registry }}/{{ .image.repository }}@{{ .image.digest }}
{{- else -}}
{{ $registry }}/{{ .image.repository }}:{{ .image.tag | default .root.Chart.AppVersion }}
{{- end -}}
{{- end }}

{{/* A file of the chart, most of which are links in a clone; the argument is a dict of root and file. */}}
{{- define "fluence.file" -}}
{{- $text := .root.Files.Get .file }}
{{- if not (contains "\nkind: " $text) }}
{{- fail (printf "%s: is missing, for the files of the chart are links here; take a package that helm package manifests/charts/fluence has made of a clone" .file) }}
{{- end }}
{{- $text }}
{{- end }}

{{/*
The documents of a file of plain manifests, for this release: they say what is needed,
and are said nowhere else. Only what the values leave out is taken from the roles.
The argument is a dict of root and file.
*/}}
{{- define "fluence.documents" -}}
{{- $root := .root }}
{{- $unused := list }}
{{- if not $root.Values.webhook.enabled }}{{ $unused = list "/secrets" "admissionregistration.k8s.io/mutatingwebhookconfigurations" }}{{ end }}
{{- if not (and $root.Values.webhook.enabled (eq (include "fluence.wholeNodes" $root) "labelled")) }}{{ $unused = append $unused "/namespaces" }}{{ end }}
{{- range $text := splitList "\n---\n" (include "fluence.file" .) }}
{{- $doc := fromYaml $text }}
{{- if hasKey $doc.metadata "namespace" }}
{{- if eq $doc.metadata.namespace "fluence-system" }}{{ $_ := set $doc.metadata "namespace" $root.Release.Namespace }}{{ end }}
{{- end }}
{{- range $subject := $doc.subjects }}{{ $_ := set $subject "namespace" $root.Release.Namespace }}{{ end }}
{{- range $rule := dig "spec" "rules" (list) $doc }}
{{- range $subject := $rule.subjects }}{{ $_ := set $subject.serviceAccount "namespace" $root.Release.Namespace }}{{ end }}
{{- range $r := $rule.resourceRules }}{{ if has "fluence-system" $r.namespaces }}{{ $_ := set $r "namespaces" (list $root.Release.Namespace) }}{{ end }}{{ end }}
{{- end }}
{{- if hasKey $doc "rules" }}
{{- $rules := list }}
{{- range $rule := $doc.rules }}
{{- if not (has (printf "%s/%s" (first $rule.apiGroups) (join "," $rule.resources)) $unused) }}{{ $rules = append $rules $rule }}{{ end }}
{{- end }}
{{- $_ := set $doc "rules" $rules }}
{{- end }}
{{- $_ := set $doc.metadata "labels" (merge (fromYaml (include "fluence.labels" $root)) ($doc.metadata.labels | default dict)) }}
---
{{ toYaml $doc }}
{{- end }}
{{- end }}

{{/* Who may ask for whole nodes: all, where the scheduler's own policy gives them to all; the argument is the root. */}}
{{- define "fluence.wholeNodes" -}}
{{- $args := .Values.scheduler.args -}}
{{- if has $args.matchPolicy (list "firstnodex" "lonodex" "hinodex") }}all{{ else }}{{ $args.wholeNodes }}{{ end -}}
{{- end }}

{{/* What both Deployments have in common; the argument is a dict of root and component. */}}
{{- define "fluence.pod" -}}
{{- $values := .root.Values -}}
serviceAccountName: fluence-{{ .component }}
enableServiceLinks: false
{{- if not $values.hostUsers }}
hostUsers: false
{{- end }}
{{- with $values.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- with $values.imagePullSecrets }}
imagePullSecrets:
{{- range . }}
- name: {{ . | quote }}
{{- end }}
{{- end }}
securityContext: {{- toYaml $values.podSecurityContext | nindent 2 }}
{{- with $values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.tolerations }}
tolerations: {{- toYaml . | nindent 0 }}
{{- end }}
{{- with $values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
topologySpreadConstraints:
{{- if $values.topologySpreadConstraints }}
{{ toYaml $values.topologySpreadConstraints }}
{{- else }}
- maxSkew: 1
  topologyKey: kubernetes.io/hostname
  whenUnsatisfiable: ScheduleAnyway
  labelSelector:
    matchLabels: {{- include "fluence.selector" .component | nindent 6 }}
  matchLabelKeys: [pod-template-hash]
{{- end }}
{{- end }}

{{/* Labels and annotations of a pod; the argument is a dict of root and component. */}}
{{- define "fluence.podLabels" -}}
{{- $own := merge (fromYaml (include "fluence.selector" .component)) (fromYaml (include "fluence.labels" .root)) -}}
{{ toYaml (merge $own (.root.Values.podLabels | default dict)) }}
{{- end }}

{{/*
Nine tenths of a container's memory limit in Go's form, so that Go collects garbage more often
before the container is killed. It is empty if the limit is not in Gi or Mi, or if there is none.
The argument is the container's resources.
*/}}
{{- define "fluence.goMemoryLimit" -}}
{{- $limit := dig "limits" "memory" "" . | toString -}}
{{- if regexMatch "^[+]?[0-9.]+[GM]i$" $limit -}}
{{- $mebibytes := $limit | trimPrefix "+" | trimSuffix "i" | trimSuffix "M" | trimSuffix "G" | float64 -}}
{{- if hasSuffix "Gi" $limit }}{{ $mebibytes = mulf 1024.0 $mebibytes }}{{ end -}}
{{- with mulf 0.9 $mebibytes | floor | int64 }}{{ . }}MiB{{ end -}}
{{- end -}}
{{- end }}
