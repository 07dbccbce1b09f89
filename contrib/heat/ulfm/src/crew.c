/* Who is where: pure functions over the crew. */
#include "ulfm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void put(struct roster *r, int rank, const char *node, int source)
{
	snprintf(r->at[rank], PLACE_LEN, "%s", node);
	r->source[rank] = source;
}

static int listed(const struct plan *p, const char *node)
{
	for (int i = 0; i < p->count; i++)
		if (strcmp(p->node[i], node) == 0)
			return i;
	return -1;
}

/* nodes are the plan's, or, without one, those of the crew. */
static struct plan *nodes(const struct crew *c, const struct plan *p)
{
	struct plan *all = malloc(sizeof *all);
	*all = *p;
	for (int i = 0; p->count == 0 && i < c->size && all->count < MAX_NODES; i++)
		if (listed(all, c->at[i]) < 0)
			memcpy(all->node[all->count++], c->at[i], PLACE_LEN);
	return all;
}

/* least is the node with the fewest ranks of those that may have some. */
static int least(const struct plan *p, const int *load, const bool *usable)
{
	int best = -1;
	for (int i = 0; i < p->count; i++)
		if (usable[i] && (best < 0 || load[i] < load[best]))
			best = i;
	return best;
}

void crew_mend(const struct crew *c, const int *index, const struct plan *plan, struct roster *r)
{
	struct plan *p = nodes(c, plan);
	int load[MAX_NODES] = {0}, had[MAX_NODES] = {0};
	bool usable[MAX_NODES];
	int living = 0;
	for (int i = 0; i < c->size; i++) {
		int node = listed(p, c->at[i]);
		living += index[i] >= 0;
		if (node >= 0) {
			had[node]++;
			load[node] += index[i] >= 0;
		}
	}
	/* A node whose ranks are all lost is lost itself, for all we know; but not the
	 * batch host, with which mpirun would be. Only there the plan can be read. */
	for (int i = 0; i < p->count; i++)
		usable[i] = load[i] > 0 || had[i] == 0 || (i == 0 && plan->count > 0);
	r->size = c->size;
	r->spawned = 0;
	for (int i = 0; i < c->size; i++) {
		if (index[i] >= 0) {
			put(r, i, c->at[i], index[i]);
			continue;
		}
		int node = listed(p, c->at[i]);
		if (node < 0 || !usable[node])
			node = least(p, load, usable);
		if (node >= 0)
			load[node]++;
		put(r, i, node >= 0 ? p->node[node] : c->at[i], living + r->spawned++);
	}
	free(p);
}

int crew_reader(const struct crew *c, const struct plan *p)
{
	for (int i = 0; i < c->size && p->count > 0; i++)
		if (strcmp(c->at[i], p->node[0]) == 0)
			return i;
	return 0;
}

void crew_spread(const struct crew *c, const struct plan *plan, struct roster *r)
{
	struct plan *p = nodes(c, plan);
	int load[MAX_NODES] = {0}, most = (c->size + p->count - 1) / p->count;
	bool usable[MAX_NODES];
	for (int i = 0; i < p->count; i++)
		usable[i] = true;
	r->size = c->size;
	r->spawned = 0;
	for (int i = 0; i < c->size; i++) {
		int node = i == 0 ? 0 : listed(p, c->at[i]);
		bool stays = node >= 0 && load[node] < most;
		load[stays ? node : 0] += stays;
		put(r, i, stays ? p->node[node] : "", i);
	}
	for (int i = 0; i < c->size; i++) {
		if (r->at[i][0] == '\0') {
			int node = least(p, load, usable);
			load[node]++;
			put(r, i, p->node[node], i);
		}
		if (strcmp(r->at[i], c->at[i]) != 0)
			r->source[i] = c->size + r->spawned++;
	}
	free(p);
}

/* pick is the first rank, from so far after rank on, that is none of the taken
 * ones and on another node than the first apart of them are. */
static int pick(const struct crew *c, int from, const int *taken, int apart)
{
	for (int i = 0; i < c->size; i++) {
		int k = (from + i) % c->size;
		bool fits = k != taken[0] && k != taken[1];
		for (int j = 0; j < apart; j++)
			fits = fits && strcmp(c->at[k], c->at[taken[j]]) != 0;
		if (fits)
			return k;
	}
	return -1;
}

void crew_buddies(const struct crew *c, int rank, int buddy[2])
{
	int third = c->size > 3 ? c->size / 3 : 1;
	int taken[2] = {rank, rank};
	buddy[0] = buddy[1] = -1;
	for (int apart = 1; apart >= 0 && buddy[0] < 0; apart--)
		buddy[0] = pick(c, rank + third, taken, apart);
	taken[1] = buddy[0];
	for (int apart = 2; buddy[0] >= 0 && apart >= 0 && buddy[1] < 0; apart--)
		buddy[1] = pick(c, rank + 2 * third, taken, apart);
}
