package chaos

import "time"

// kinds are all kinds of events. Their order determines what a seed means. The
// first firstKinds kinds are shuffled. Each of the others is then dealt among
// them by its own dice, so that it does not change the order of the first.
var kinds = []kind{
	{"create-job", 140, drawCreate(Job)},
	{"create-pods", 50, drawCreate(Pods)},
	{"create-statefulset", 35, drawCreate(StatefulSet)},
	{"create-deployment", 35, drawCreate(Deployment)},
	{"create-lone-pod", 90, drawCreate(LonePod)},
	{"delete-group", 190, func(d *dice) Action { return deleteGroup{Victim: d.Uint32()} }},
	{"delete-member", 60, func(d *dice) Action { return deleteMember{Victim: d.Uint32(), Member: d.Uint32()} }},
	{"scale", 45, drawScale},
	{"suspend", 15, func(d *dice) Action { return suspend{Victim: d.Uint32(), Suspend: true} }},
	{"resume", 20, func(d *dice) Action { return suspend{Victim: d.Uint32()} }},
	{"edit-min", 20, func(d *dice) Action { return editMin{Victim: d.Uint32(), Min: d.between(1, 6)} }},
	{"delete-podgroup", 15, func(d *dice) Action { return deletePodGroup{Victim: d.Uint32()} }},
	{"label", 25, func(d *dice) Action { return label{Victim: d.Uint32(), Value: d.between(0, 999)} }},
	{"drain", 2, func(*dice) Action { return drain{} }},

	{"add-node", 13, func(d *dice) Action { return addNode{Number: d.Uint32(), Shape: drawShape(d)} }},
	{"remove-node", 12, func(d *dice) Action { return removeNode{Victim: d.Uint32()} }},
	{"cordon", 30, func(d *dice) Action { return cordon{Victim: d.Uint32(), Cordon: true} }},
	{"uncordon", 35, func(d *dice) Action { return cordon{Victim: d.Uint32()} }},
	{"taint", 20, func(d *dice) Action { return taint{Victim: d.Uint32(), Taint: true, Evict: d.chance(20)} }},
	{"untaint", 25, func(d *dice) Action { return taint{Victim: d.Uint32()} }},
	{"resize-node", 40, func(d *dice) Action {
		return resizeNode{Victim: d.Uint32(), Percent: oneOf(d, 0, 25, 50, 75, 100, 100, 100, 150)}
	}},
	{"gpus", 12, func(d *dice) Action { return gpus{Victim: d.Uint32(), Count: oneOf(d, 0, 2, 4, 8)} }},
	{"not-ready", 12, func(d *dice) Action { return notReady{Victim: d.Uint32()} }},
	{"zone", 10, func(d *dice) Action {
		return zone{Victim: d.Uint32(), Zone: d.IntN(zones), Rack: d.stands.IntN(2 * racks)}
	}},

	{"burst", 4, drawBurst},
	{"delete-foreign", 20, func(d *dice) Action { return deleteForeign{Victim: d.Uint32(), Count: d.between(1, 20)} }},
	{"nominate", 8, drawNominate},
	{"withdraw", 10, func(d *dice) Action { return withdraw{Victim: d.Uint32(), Delete: d.chance(50)} }},

	{"kill", 22, drawKill},
	{"freeze", 6, drawFreeze},
	{"outage", 3, drawOutage},
	{"kill-kubelet", 1, func(d *dice) Action { return killKubelet{Kwok: d.chance(50)} }},

	{"overload", 3, func(d *dice) Action { return drawOverload(d.late[0]) }},
	{"outgrow", 4, func(d *dice) Action { return drawOutgrow(d.late[1]) }},
	{editDuration, 40, func(d *dice) Action {
		own := d.late[2]
		return redate{Victim: own.Uint32(), Duration: time.Duration(own.between(5, 90)) * time.Second}
	}},
	{holdJob, 40, func(d *dice) Action { return hold{Victim: d.late[3].Uint32(), Held: d.late[3].chance(45)} }},
	{editTimeLimit, 25, func(d *dice) Action {
		own := d.late[4]
		return relimit{Victim: own.Uint32(), Limit: time.Duration(own.between(3, 60)) * time.Second}
	}},
	{editQueue, 20, func(d *dice) Action { return drawEditQueue(d.late[5]) }},
}

// firstKinds is the number of kinds that are shuffled.
const firstKinds = 32
