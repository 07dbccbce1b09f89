package ec2test

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// made is an image of an instance, with its one snapshot.
type made struct {
	id, snapshot, name string
	tags, snapshotTags map[string]string
	at, ready          time.Time
	gone               bool // the image; the snapshot may still be there
	snapshotGone       bool
}

func (c *Cloud) createImage(p *params) (body, *failure) {
	tags := map[string]map[string]string{}
	for _, s := range p.list("TagSpecification") {
		kind := s.get("ResourceType")
		if kind != "image" && kind != "snapshot" {
			return nil, fail("InvalidParameterValue", "'%s' is not a valid taggable resource type for this operation.", kind)
		}
		tags[kind] = map[string]string{}
		for _, t := range s.list("Tag") {
			tags[kind][t.get("Key")] = t.get("Value")
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	id, now := p.get("InstanceId"), c.now()
	m := c.byID[id]
	if m == nil {
		return nil, notFound([]string{id})
	}
	if s := m.state(now); s != running && s != stopped {
		return nil, fail("IncorrectInstanceState", "Instance is not in state 'running' or 'stopped'")
	}
	name := p.get("Name")
	if slices.ContainsFunc(c.made, func(m *made) bool { return m.name == name && !m.gone }) {
		return nil, fail("InvalidAMIName.Duplicate", "AMI name %s is already in use by AMI", name)
	}
	c.serial++
	one := &made{id: fmt.Sprintf("ami-0c%015x", c.serial), snapshot: fmt.Sprintf("snap-0c%015x", c.serial), name: name,
		tags: tags["image"], snapshotTags: tags["snapshot"], at: now, ready: now.Add(c.o.Image)}
	c.made = append(c.made, one)
	return func(a *answer) { a.text("imageId", one.id) }, nil
}

// describeMade shows images of instances.
func (c *Cloud) describeMade(p *params) (body, *failure) {
	f, failed := readFilters(p, "image-id", "name", "state")
	if failed != nil {
		return nil, failed
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	var all []*made
	for _, m := range c.made {
		if !m.gone && f.match("image-id", m.id) && f.match("name", m.name) && f.matchTags(m.tags) {
			all = append(all, m)
		}
	}
	return func(a *answer) {
		list(a, "imagesSet", all, func(m *made) {
			state := "available"
			if now.Before(m.ready) {
				state = "pending"
			}
			a.text("imageId", m.id)
			a.text("imageState", state)
			a.text("imageOwnerId", Account)
			a.text("name", m.name)
			a.time("creationDate", m.at)
			a.tags(maps.Clone(m.tags))
			list(a, "blockDeviceMapping", []string{"/dev/xvda"}, func(device string) {
				a.text("deviceName", device)
				a.in("ebs", func() {
					a.text("snapshotId", m.snapshot)
					a.number("volumeSize", 8)
				})
			})
		})
	}, nil
}

func (c *Cloud) describeSnapshots(p *params) (body, *failure) {
	f, failed := readFilters(p, "snapshot-id")
	if failed != nil {
		return nil, failed
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	var all []*made
	for _, m := range c.made {
		if !m.snapshotGone && f.match("snapshot-id", m.snapshot) && f.matchTags(m.snapshotTags) {
			all = append(all, m)
		}
	}
	return func(a *answer) {
		list(a, "snapshotSet", all, func(m *made) {
			status, percent := "completed", "100%"
			if now.Before(m.ready) {
				status, percent = "pending", fmt.Sprintf("%d%%", 100*now.Sub(m.at)/m.ready.Sub(m.at))
			}
			a.text("snapshotId", m.snapshot)
			a.text("status", status)
			a.text("progress", percent)
			a.time("startTime", m.at)
			a.number("volumeSize", 8)
			a.tags(maps.Clone(m.snapshotTags))
		})
	}, nil
}

func (c *Cloud) deregisterImage(p *params) (body, *failure) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.made {
		if m.id == p.get("ImageId") && !m.gone {
			m.gone = true
			return func(a *answer) { a.yes("return", true) }, nil
		}
	}
	return nil, fail("InvalidAMIID.Unavailable", "The image ID '%s' is no longer available", p.get("ImageId"))
}

func (c *Cloud) deleteSnapshot(p *params) (body, *failure) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.made {
		if m.snapshot != p.get("SnapshotId") || m.snapshotGone {
			continue
		}
		if !m.gone {
			return nil, fail("InvalidSnapshot.InUse", "The snapshot %s is currently in use by %s", m.snapshot, m.id)
		}
		m.snapshotGone = true
		return func(a *answer) { a.yes("return", true) }, nil
	}
	return nil, fail("InvalidSnapshot.NotFound", "The snapshot '%s' does not exist.", p.get("SnapshotId"))
}
