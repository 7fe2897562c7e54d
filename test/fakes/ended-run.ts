import type { Program, ProgramEnd } from '../../src/environments/environment.js';
import type { Agents } from '../../src/environments/gym-agent/agents.js';

export interface AskedRun {
  /** Its name; absent: one of its own. */
  run?: string;
  agent?: string;
  /** The row. */
  body: string;
  failures?: number;
  /** Of the gateway; absent: it asks another model. */
  key?: string;
  timeout?: string | null;
  signal?: AbortSignal;
}

let names = 0;

/** The end of a run of an agent, which is not stopped yet. */
export async function endedRun(
  agents: Pick<Agents, 'start' | 'wait'>,
  { agent = 'a', body, failures = 0, key = '', timeout = null, ...asked }: AskedRun,
): Promise<ProgramEnd> {
  const { run = `run-${(names += 1)}`, signal = new AbortController().signal } = asked;
  const metadata = { agent, task_index: 3, rollout_index: 1, row: body, timeout };
  const start: Parameters<Program['start']>[1] = {
    task: { base_url: '', key, prompt: '', message_log: [], metadata },
    failures,
    serve: () => undefined,
    over: () => Promise.resolve(),
    signal,
  };
  await agents.start(run, start);
  const ended = await agents.wait(run, { signal });
  if (ended === 'gone' || ended.state !== 'ended') throw new Error(`${run} has not ended`);
  return ended;
}
