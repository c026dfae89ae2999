// Prints the events of a room's feed and the progress of its runs as they happen.

import type { Page, RoomClient, RoomEvent, Run } from './room-client';

const POLL_MS = 60;
/** After this time without output a line is printed. */
const SILENCE_MS = 1_000;

const tty = process.stdout.isTTY;
const paint = (code: number) => (text: string) => (tty ? `\u001b[${code}m${text}\u001b[0m` : text);
export const bold = paint(1);
export const dim = paint(2);
export const red = paint(31);
export const green = paint(32);
export const cyan = paint(36);

export interface Names {
  readonly agents: Map<string, string>;
  readonly companies: Map<string, string>;
}

/** Watches one room with the keys of its companies, and prints every change once. */
export class Narrator {
  private readonly startedAt = Date.now();
  private readonly printed = new Set<string>();
  private seq = 0;
  private printedAt = Date.now();
  private watching = false;
  private watched: Promise<void> = Promise.resolve();
  private doing = '';

  private readonly roomId: string;
  /** The first key reads the feed; each reads the runs of its own company. */
  private readonly clients: readonly RoomClient[];
  private readonly names: Names;

  constructor(roomId: string, clients: readonly RoomClient[], names: Names) {
    this.roomId = roomId;
    this.clients = clients;
    this.names = names;
  }

  /** Prints a line. */
  say(text: string): void {
    console.log(text);
    this.printedAt = Date.now();
  }

  /** Sets the text that is printed if the wait takes longer than a second. */
  announceWait(doing: string): void {
    this.doing = doing;
  }

  start(): void {
    this.watching = true;
    this.watched = this.watch();
  }

  async stop(): Promise<void> {
    this.watching = false;
    await this.watched;
  }

  private async watch(): Promise<void> {
    while (this.watching) {
      await this.poll();
      if (Date.now() - this.printedAt >= SILENCE_MS) this.line('…', dim(this.doing));
      await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    }
    await this.poll();
  }

  private async poll(): Promise<void> {
    const [first] = this.clients;
    const feed = await first?.get<Page<RoomEvent>>(`/v1/rooms/${this.roomId}/events?after=${this.seq}&limit=200`);
    for (const event of feed?.data ?? []) {
      this.seq = event.seq;
      this.printEvent(event);
    }
    for (const client of this.clients) {
      const runs = await client.get<Page<Run>>(`/v1/runs?room=${this.roomId}&limit=200`);
      for (const run of [...runs.data].reverse()) await this.printRun(client, run);
    }
  }

  private printEvent({ type, author, company, data, seq }: RoomEvent): void {
    const who = `${author?.name ?? 'the room'}${company ? dim(` (${this.companyOf(company)})`) : ''}`;
    const text = (key: string): string => (typeof data[key] === 'string' ? short(data[key]) : '');
    switch (type) {
      case 'message':
        return this.line(`#${seq} message`, `${who}: ${bold(text('text'))}`);
      case 'task':
        return this.line(`#${seq} task`, `${who} → ${this.agentOf(data['recipient'])}: ${bold(text('goal'))}`);
      case 'task_started':
        return this.line(`#${seq} task`, `${who} started the task`);
      case 'task_response':
        return this.line(`#${seq} task ${text('state')}`, `${who}: ${bold(text('result'))}`);
      case 'memory':
        return this.line(`#${seq} memory`, `${who} wrote, ${text('category')}: ${bold(text('content'))}`);
      case 'run_ended': {
        const ending = text('ending');
        const shown = ending === 'replied' || ending === 'silent' ? green(ending) : red(ending);
        return this.line(`#${seq} run ended`, `${this.agentOf(data['agent'])}: ${shown}`);
      }
      default:
        return this.line(`#${seq} ${type.replaceAll('_', ' ')}`, who);
    }
  }

  private async printRun(client: RoomClient, run: Run): Promise<void> {
    const agent = this.agentOf(run.agent);
    this.once(`${run.id}:claimed`, '  claim', `${agent} claimed ${tail(run.message)} in run ${tail(run.id)}`);
    if (this.printed.has(`${run.id}:closed`)) return;
    const detail = await client.get<Run>(`/v1/runs/${run.id}`);
    // Only the run's own company can read its ledger.
    if (detail.steps === undefined) return;
    for (const request of detail.requests ?? []) {
      this.once(`${run.id}:${request.number}`, '  model', `request ${request.number} of run ${tail(run.id)}`);
      if (request.outcome !== 'in_flight') {
        this.once(`${run.id}:${request.number}:end`, '  model', `request ${request.number}: ${request.outcome}`);
      }
    }
    if (detail.state === 'closed') this.once(`${run.id}:closed`, '  ledger', ledgerOf(detail));
  }

  private once(key: string, label: string, text: string): void {
    if (this.printed.has(key)) return;
    this.printed.add(key);
    this.line(label, text);
  }

  /** Prints a line with a time and a label. */
  line(label: string, text: string): void {
    const seconds = ((Date.now() - this.startedAt) / 1_000).toFixed(1).padStart(5);
    this.say(`${dim(seconds)}  ${cyan(label.padEnd(15))} ${text}`);
  }

  private agentOf(id: unknown): string {
    return this.names.agents.get(String(id)) ?? tail(String(id));
  }

  private companyOf(id: string): string {
    return this.names.companies.get(id) ?? tail(id);
  }
}

/** The ledger of a run in one line: every declared step with its state. */
export function ledgerOf(run: Run): string {
  const steps = (run.steps ?? []).map((step) => {
    const state = step.state === 'done' ? green('done') : red(step.state.replaceAll('_', ' '));
    return `${step.key} ${state}`;
  });
  return `run ${tail(run.id)}: ${run.ending}${run.code ? ` (${run.code})` : ''} · ${steps.join(' · ') || 'no step declared'}`;
}

export function tail(id: string): string {
  return `${id.split('_')[0]}_…${id.slice(-5)}`;
}

function short(text: string): string {
  return text.length > 90 ? `${text.slice(0, 89)}…` : text;
}
