{{/* The seconds of a duration such as 1h30m. */}}
{{- define "fluence.seconds" -}}
{{- $seconds := 0.0 }}
{{- range $part := regexFindAll "[0-9]+[a-z]+" . -1 }}
{{- $each := get (dict "h" 3600.0 "m" 60.0 "s" 1.0 "ms" 0.001) (regexFind "[a-z]+" $part) }}
{{- $seconds = addf $seconds (mulf (regexFind "[0-9]+" $part | float64) $each) }}
{{- end }}
{{- printf "%f" $seconds }}
{{- end }}

{{/* Refuses values that are wrong only together, before anything is installed. */}}
{{- define "fluence.checks" -}}
{{- $v := .Values }}
{{- if not $v.image.registry }}
{{- fail "image.registry: must be set to the registry that holds the images you built, such as registry.example.com/hpc; see docs/install.md" }}
{{- end }}
{{- range $at, $times := dict "leaderElection" $v.leaderElection "controller.leaderElection" $v.controller.leaderElection }}
{{- $lease := trimSuffix "s" $times.leaseDuration | int }}
{{- $renew := trimSuffix "s" $times.renewDeadline | int }}
{{- $retry := trimSuffix "s" $times.retryPeriod | int }}
{{- if le $lease $renew }}
{{- fail (printf "%s.leaseDuration: %ds is not longer than %s.renewDeadline, %ds; make the lease longer" $at $lease $at $renew) }}
{{- end }}
{{- /* A retry comes up to 1.2 times as late as its period says. */}}
{{- if le (mul 10 $renew) (mul 12 $retry) }}
{{- fail (printf "%s.retryPeriod: %ds leaves no second try within %s.renewDeadline, %ds; make it less than 5/6 of that" $at $retry $at $renew) }}
{{- end }}
{{- end }}
{{- /* The last of two flags counts, and from 8 on keys are logged. */}}
{{- range $program := list "scheduler" "sidecar" "controller" }}
{{- range $i, $arg := (get $v $program).extraArgs }}
{{- if regexMatch "^(-v|--v(module)?(=|$))" $arg }}
{{- fail (printf "%s.extraArgs[%d]: %q sets how much is logged; set %s.verbosity, which is bounded" $program $i $arg $program) }}
{{- end }}
{{- end }}
{{- end }}
{{- if and $v.fluxion.granule (ne $v.engine "fluxion") }}
{{- fail (printf "fluxion.granule: set with the engine %q, which has no granules; set engine to fluxion" $v.engine) }}
{{- end }}
{{- if and (eq $v.engine "fluxion") (has $v.scheduler.args.matchPolicy (list "hinodex" "firstnodex")) }}
{{- fail (printf "scheduler.args.matchPolicy: %q is not offered by the engine fluxion; take first, low, high, lonode, hinode or lonodex, or the engine embedded" $v.scheduler.args.matchPolicy) }}
{{- end }}
{{- if and $v.serviceMonitor.enabled (not $v.metrics.enabled) }}
{{- fail "serviceMonitor.enabled: there is nothing to find without metrics.enabled" }}
{{- end }}
{{- $reserve := $v.scheduler.args.maxReserve }}
{{- $seconds := include "fluence.seconds" $reserve | float64 }}
{{- if and (gt $seconds 0.0) (lt $seconds 60.0) }}
{{- fail (printf "scheduler.args.maxReserve: %q is neither 0s nor at least 1m" $reserve) }}
{{- end }}
{{- if gt (include "fluence.seconds" $v.scheduler.args.handover | float64) 10.0 }}
{{- fail (printf "scheduler.args.handover: %q is longer than 10s" $v.scheduler.args.handover) }}
{{- end }}
{{- if gt (include "fluence.seconds" $v.scheduler.args.expectTimeout | float64) (include "fluence.seconds" $v.scheduler.args.expectTotal | float64) }}
{{- fail (printf "scheduler.args.expectTimeout: %q is longer than scheduler.args.expectTotal, %q" $v.scheduler.args.expectTimeout $v.scheduler.args.expectTotal) }}
{{- end }}
{{- if and $v.prometheusRule.enabled (not $v.metrics.enabled) }}
{{- fail "prometheusRule.enabled: its alerts have nothing to go by without metrics.enabled" }}
{{- end }}
{{- if and $v.metrics.enabled $v.networkPolicy.enabled (not $v.networkPolicy.metricsFrom) }}
{{- fail "networkPolicy.metricsFrom: must say who may read the metrics with metrics.enabled, such as [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: monitoring}}}]" }}
{{- end }}
{{- if and $v.networkPolicy.egress.enabled (not $v.networkPolicy.enabled) }}
{{- fail "networkPolicy.egress.enabled: has no effect without networkPolicy.enabled" }}
{{- end }}
{{- if and $v.networkPolicy.egress.enabled (not $v.networkPolicy.egress.apiServer) }}
{{- fail "networkPolicy.egress.apiServer: must say where the API server is with networkPolicy.egress.enabled, such as [{ipBlock: {cidr: 192.0.2.1/32}}]" }}
{{- end }}
{{- if and $v.priorityClass.create (or (not $v.priorityClassName) (hasPrefix "system-" $v.priorityClassName)) }}
{{- fail (printf "priorityClassName: %q cannot be made by priorityClass.create; give it a name of your own, not beginning with system-" $v.priorityClassName) }}
{{- end }}
{{- $names := dict $v.schedulerName "schedulerName" }}
{{- range $i, $profile := $v.scheduler.extraProfiles }}
{{- $at := printf "scheduler.extraProfiles[%d].schedulerName" $i }}
{{- with get $names $profile.schedulerName }}
{{- fail (printf "%s: %q is the name of another profile (%s)" $at $profile.schedulerName .) }}
{{- end }}
{{- $_ := set $names $profile.schedulerName $at }}
{{- end }}
{{- $types := dict }}
{{- range $i, $key := $v.scheduler.args.topologyLevels }}
{{- $type := base $key }}
{{- if hasKey $types $type }}
{{- fail (printf "scheduler.args.topologyLevels[%d]: %q has the type %q of %q before it" $i $key $type (get $types $type)) }}
{{- end }}
{{- $_ := set $types $type $key }}
{{- end }}
{{- with $v.scheduler.config }}
{{- $first := .podInitialBackoffSeconds | default 1 | int }}
{{- $longest := .podMaxBackoffSeconds | default 10 | int }}
{{- if gt $first $longest }}
{{- fail (printf "scheduler.config.podInitialBackoffSeconds: %d is more than podMaxBackoffSeconds, %d; raise that too" $first $longest) }}
{{- end }}
{{- end }}
{{- /* A cluster is asked only where there is one: not by helm template. */}}
{{- if lookup "v1" "Namespace" "" "kube-system" }}
{{- if not $v.crds.install }}
{{- $crd := lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" "podgroups.scheduling.x-k8s.io" }}
{{- if not $crd }}
{{- fail "crds.install: false, but the cluster has no CRD podgroups.scheduling.x-k8s.io; set it to true, or apply manifests/crds first" }}
{{- end }}
{{- range $crd.spec.versions }}
{{- if not (dig "schema" "openAPIV3Schema" "properties" "status" "properties" "conditions" "" .) }}
{{- fail "crds.install: false, but the cluster's CRD podgroups.scheduling.x-k8s.io has no status.conditions, in which Fluence says why a group waits; apply manifests/crds, which has all fields of the other, or set it to true with --take-ownership" }}
{{- end }}
{{- end }}
{{- end }}
{{- $class := $v.priorityClassName }}
{{- if not (or (not $class) $v.priorityClass.create (lookup "scheduling.k8s.io/v1" "PriorityClass" "" $class)) }}
{{- fail (printf "priorityClassName: the cluster has no PriorityClass %q, and no pod would be made; create it first, or let priorityClass.create make it" $class) }}
{{- end }}
{{- end }}
{{- end }}
