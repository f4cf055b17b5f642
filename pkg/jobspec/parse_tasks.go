package jobspec

// parseTasks reads the list of tasks (RFC 14, "Tasks").
func parseTasks(v value) ([]Task, error) {
	items, err := v.list()
	if err != nil {
		return nil, err
	}
	var ts []Task
	for i, item := range items {
		t, err := parseTask(item)
		if err != nil {
			return nil, inItem(i, err)
		}
		ts = append(ts, t)
	}
	return ts, nil
}

func parseTask(v value) (Task, error) {
	var t Task
	if err := v.mapping(); err != nil {
		return t, err
	}
	if err := only(v, "command", "slot", "count", "distribution", "attributes"); err != nil {
		return t, err
	}
	for _, key := range []string{"command", "slot", "count"} {
		if _, err := v.require(key); err != nil {
			return t, err
		}
	}
	var err error
	command, _ := v.get("command")
	if t.Command, err = texts(command); err != nil {
		return t, in("command", err)
	}
	if err := setText(&t.Slot, v, "slot"); err != nil {
		return t, err
	}
	if err := setText(&t.Distribution, v, "distribution"); err != nil {
		return t, err
	}
	count, _ := v.get("count")
	if t.Count, err = parseTaskCount(count); err != nil {
		return t, in("count", err)
	}
	if item, ok := v.get("attributes"); ok {
		if t.Attributes, err = rawMapping(item); err != nil {
			return t, in("attributes", err)
		}
	}
	return t, nil
}

func parseTaskCount(v value) (TaskCount, error) {
	var c TaskCount
	if err := v.mapping(); err != nil {
		return c, err
	}
	if err := only(v, "per_slot", "total"); err != nil {
		return c, err
	}
	if len(v.keys) != 1 {
		return c, faultAt(v, "needs either per_slot or total")
	}
	n, err := wholeNumber(v.items[0])
	if err == nil && n < 1 {
		err = faultAt(v.items[0], "%v: less than 1", v.items[0])
	}
	if err != nil {
		return c, in(v.keys[0], err)
	}
	if v.keys[0] == "total" {
		c.Total = n
	} else {
		c.PerSlot = n
	}
	return c, nil
}
