package ec2test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"
)

type template struct {
	id, name string
	tags     map[string]string
	versions []*version
	latest   int
	standard int // the default version
	made     time.Time
}

type version struct {
	of     *template
	number int
	text   string // description
	data   *params
	made   time.Time
}

func (v *version) ref() string { return v.of.id + ":" + strconv.Itoa(v.number) }

func (v *version) tags(kind string) map[string]string { return v.data.tagsOf(kind) }

// Template is one launch template as a test may look at it.
type Template struct {
	ID, Name string
	Tags     map[string]string
	Versions []int
}

// Templates returns the launch templates by name.
func (c *Cloud) Templates() []Template {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []Template
	for _, t := range c.sortedTemplates() {
		one := Template{ID: t.id, Name: t.name, Tags: maps.Clone(t.tags)}
		for _, v := range t.versions {
			one.Versions = append(one.Versions, v.number)
		}
		all = append(all, one)
	}
	return all
}

func (c *Cloud) sortedTemplates() []*template {
	all := slices.Collect(maps.Values(c.templates))
	slices.SortFunc(all, func(x, y *template) int {
		if x.name < y.name {
			return -1
		}
		return 1
	})
	return all
}

// findTemplate finds what id or name says. Called with the lock held, as all below.
func (c *Cloud) findTemplate(p *params) (*template, *failure) {
	if id := p.get("LaunchTemplateId"); id != "" {
		if t := c.templates[id]; t != nil {
			return t, nil
		}
		return nil, fail("InvalidLaunchTemplateId.NotFound", "The specified launch template, with template ID %s, does not exist.", id)
	}
	for _, t := range c.templates {
		if t.name == p.get("LaunchTemplateName") {
			return t, nil
		}
	}
	return nil, fail("InvalidLaunchTemplateName.NotFoundException", "The specified launch template, with template name %s, does not exist.", p.get("LaunchTemplateName"))
}

func (c *Cloud) findVersion(p *params) (*version, *failure) {
	t, failed := c.findTemplate(p)
	if failed != nil {
		return nil, failed
	}
	want := t.standard
	switch text := p.get("Version"); text {
	case "", "$Default":
	case "$Latest":
		want = t.latest
	default:
		want = p.number("Version")
	}
	if v := t.version(want); v != nil {
		return v, nil
	}
	return nil, fail("InvalidLaunchTemplateId.VersionNotFound", "Could not find the specified version %s for the launch template with ID %s.", p.get("Version"), t.id)
}

func (t *template) version(n int) *version {
	i := slices.IndexFunc(t.versions, func(v *version) bool { return v.number == n })
	if i < 0 {
		return nil
	}
	return t.versions[i]
}

func (t *template) add(p *params, now time.Time) *version {
	t.latest++
	data := p.at("LaunchTemplateData")
	if data == nil {
		data = &params{}
	}
	v := &version{of: t, number: t.latest, text: p.get("VersionDescription"), data: data, made: now}
	t.versions = append(t.versions, v)
	return v
}

func (c *Cloud) createTemplate(p *params) (body, *failure) {
	c.mu.Lock()
	defer c.mu.Unlock()
	name := p.get("LaunchTemplateName")
	if _, failed := c.findTemplate(p); failed == nil {
		return nil, fail("InvalidLaunchTemplateName.AlreadyExistsException", "Launch template name already in use.")
	}
	t := &template{id: c.id("lt"), name: name, tags: p.tagsOf("launch-template"), standard: 1, made: c.now()}
	t.add(p, c.now())
	c.templates[t.id] = t
	return func(a *answer) { a.in("launchTemplate", func() { t.show(a, 1, 1) }) }, nil
}

func (t *template) show(a *answer, standard, latest int) {
	a.text("launchTemplateId", t.id)
	a.text("launchTemplateName", t.name)
	a.time("createTime", t.made)
	a.number("defaultVersionNumber", standard)
	a.number("latestVersionNumber", latest)
	a.tags(t.tags)
}

func (v *version) show(a *answer) {
	a.text("launchTemplateId", v.of.id)
	a.text("launchTemplateName", v.of.name)
	a.number("versionNumber", v.number)
	a.text("versionDescription", v.text)
	a.time("createTime", v.made)
	a.in("launchTemplateData", func() {
		a.text("imageId", v.data.get("ImageId"))
		a.text("userData", v.data.get("UserData"))
	})
}

func (c *Cloud) createVersion(p *params) (body, *failure) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t, failed := c.findTemplate(p)
	if failed != nil {
		return nil, failed
	}
	v := t.add(p, c.now())
	return func(a *answer) { a.in("launchTemplateVersion", func() { v.show(a) }) }, nil
}

func (c *Cloud) modifyTemplate(p *params) (body, *failure) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t, failed := c.findTemplate(p)
	if failed != nil {
		return nil, failed
	}
	n := p.number("SetDefaultVersion")
	if t.version(n) == nil {
		return nil, fail("InvalidLaunchTemplateId.VersionNotFound", "Could not find version %d", n)
	}
	t.standard = n
	latest := t.latest
	return func(a *answer) { a.in("launchTemplate", func() { t.show(a, n, latest) }) }, nil
}

func (c *Cloud) describeTemplates(p *params) (body, *failure) {
	f, failed := readFilters(p, "launch-template-name")
	if failed != nil {
		return nil, failed
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var shown []template
	for _, t := range c.sortedTemplates() {
		names, ids := p.strings("LaunchTemplateName"), p.strings("LaunchTemplateId")
		if (len(names) == 0 || slices.Contains(names, t.name)) && (len(ids) == 0 || slices.Contains(ids, t.id)) &&
			f.match("launch-template-name", t.name) && f.matchTags(t.tags) {
			shown = append(shown, *t)
		}
	}
	return func(a *answer) {
		list(a, "launchTemplates", shown, func(t template) { t.show(a, t.standard, t.latest) })
	}, nil
}

func (c *Cloud) describeVersions(p *params) (body, *failure) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t, failed := c.findTemplate(p)
	if failed != nil {
		return nil, failed
	}
	wanted := p.strings("LaunchTemplateVersion")
	var all []*version
	for _, v := range t.versions {
		if len(wanted) == 0 || slices.Contains(wanted, strconv.Itoa(v.number)) {
			all = append(all, v)
		}
	}
	return func(a *answer) { list(a, "launchTemplateVersionSet", all, func(v *version) { v.show(a) }) }, nil
}

func (c *Cloud) deleteTemplate(p *params) (body, *failure) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t, failed := c.findTemplate(p)
	if failed != nil {
		return nil, failed
	}
	delete(c.templates, t.id)
	return func(a *answer) { a.in("launchTemplate", func() { t.show(a, t.standard, t.latest) }) }, nil
}

func (c *Cloud) deleteVersions(p *params) (body, *failure) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t, failed := c.findTemplate(p)
	if failed != nil {
		return nil, failed
	}
	var gone, kept []string
	for _, text := range p.strings("LaunchTemplateVersion") {
		n, err := strconv.Atoi(text)
		if err != nil || t.version(n) == nil || n == t.standard {
			kept = append(kept, text)
			continue
		}
		t.versions = slices.DeleteFunc(t.versions, func(v *version) bool { return v.number == n })
		gone = append(gone, text)
	}
	one := func(a *answer) func(string) {
		return func(n string) {
			a.text("launchTemplateId", t.id)
			a.text("versionNumber", n)
		}
	}
	return func(a *answer) {
		list(a, "successfullyDeletedLaunchTemplateVersionSet", gone, one(a))
		list(a, "unsuccessfullyDeletedLaunchTemplateVersionSet", kept, func(n string) {
			one(a)(n)
			a.in("responseError", func() {
				a.text("code", "launchTemplateVersionDoesNotExist")
				a.text("message", fmt.Sprintf("version %s cannot be deleted", n))
			})
		})
	}, nil
}
