// What the store wrote and what stands in the database, as Prometheus metrics. For every process that has a /metrics.
// No ids, names or texts are labels: a label's values are closed sets, so their number has a bound.

import { Counter, Gauge, Registry } from 'prom-client';
import { OBSERVATIONS, type Observation } from '../../prisma/store/rooms/observations';
import { loadStanding } from '../../prisma/store/reports/backlog';
import type { Database } from '../../prisma/store/db/database';

/** Counts what this process's store writes from here on. Returns what stops it. */
export function countStore(registry: Registry): () => void {
  const registers = [registry];
  const wakes = new Counter({
    name: 'durable_room_wakes_caused_total',
    help: 'Wakes caused by what was written: pending, or suppressed with the reason. Suppressed at delivery counts again.',
    labelNames: ['state', 'reason'],
    registers,
  });
  const endings = new Counter({
    name: 'durable_room_runs_ended_total',
    help: 'Runs closed by this process, by ending.',
    labelNames: ['ending'],
    registers,
  });
  const events = new Counter({
    name: 'durable_room_room_events_total',
    help: 'Room events appended by this process, by type.',
    labelNames: ['type'],
    registers,
  });
  const hear = (message: unknown): void => {
    const observation = message as Observation;
    switch (observation.kind) {
      case 'room_event':
        return events.inc({ type: observation.type });
      case 'run_ended':
        return endings.inc({ ending: observation.ending });
      case 'wake_pending':
        return wakes.inc({ state: 'pending', reason: '' });
      case 'wake_suppressed':
        return wakes.inc({ state: 'suppressed', reason: observation.reason });
    }
  };
  OBSERVATIONS.subscribe(hear);
  return () => {
    OBSERVATIONS.unsubscribe(hear);
  };
}

/** What stands in the database at each scrape. Every process that has these says the same: take the max, not the sum. */
export function gaugeStanding(registry: Registry, db: Database): void {
  const count = new Gauge({
    name: 'durable_room_standing',
    help: 'Rows that wait for something: pending and delivered wakes, open runs.',
    labelNames: ['what'],
    registers: [registry],
    async collect() {
      const standing = await loadStanding(db);
      for (const [what, n] of Object.entries(standing.counts)) count.set({ what }, n);
      for (const [what, seconds] of Object.entries(standing.oldestSeconds)) oldest.set({ what }, seconds);
    },
  });
  const oldest = new Gauge({
    name: 'durable_room_oldest_seconds',
    help: 'Age of the oldest of those, 0 where there is none.',
    labelNames: ['what'],
    registers: [registry],
  });
}
