// Prometheus metrics of what the store wrote and of the backlog in the database, for every process that serves /metrics.
// Labels hold no ids, names or texts: their values are closed sets, so the number of series is bounded.

import { Counter, Gauge, Registry } from 'prom-client';
import { OBSERVATIONS, type Observation } from '../../prisma/store/rooms/observations';
import { loadBacklog } from '../../prisma/store/reports/backlog';
import type { Database } from '../../prisma/store/db/database';

/** Counts what the store of this process writes from now on. Returns a function that stops the counting. */
export function countStore(registry: Registry): () => void {
  const registers = [registry];
  const wakes = new Counter({
    name: 'durable_room_wakes_caused_total',
    help: 'Wakes that this process wrote: pending, or suppressed with the reason. A wake that is suppressed at its delivery is counted a second time.',
    labelNames: ['state', 'reason'],
    registers,
  });
  const endings = new Counter({
    name: 'durable_room_runs_ended_total',
    help: 'Runs that this process closed, by ending.',
    labelNames: ['ending'],
    registers,
  });
  const events = new Counter({
    name: 'durable_room_room_events_total',
    help: 'Room events that this process appended, by type.',
    labelNames: ['type'],
    registers,
  });
  const record = (message: unknown): void => {
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
  OBSERVATIONS.subscribe(record);
  return () => {
    OBSERVATIONS.unsubscribe(record);
  };
}

/** Reads the backlog in the database at each scrape. Every process reports the same values: take the maximum, not the sum. */
export function gaugeBacklog(registry: Registry, db: Database): void {
  const count = new Gauge({
    name: 'durable_room_backlog',
    help: 'Rows that wait, by kind: pending and delivered wakes, open runs, held actions that wait for a decision.',
    labelNames: ['what'],
    registers: [registry],
    async collect() {
      const backlog = await loadBacklog(db);
      for (const [what, n] of Object.entries(backlog.counts)) count.set({ what }, n);
      for (const [what, seconds] of Object.entries(backlog.oldestSeconds)) oldest.set({ what }, seconds);
    },
  });
  const oldest = new Gauge({
    name: 'durable_room_oldest_seconds',
    help: 'Age in seconds of the oldest row of each kind in durable_room_backlog; 0 if there is none.',
    labelNames: ['what'],
    registers: [registry],
  });
}
