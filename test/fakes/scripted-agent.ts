import type { Environment, ProgramEnd, ProgramStart } from '../../src/environments/environment.js';
import { bareEnd } from '../../src/environments/environment.js';
import { AS_ANSWERED, endOf } from '../../src/environments/gym-agent/answer.js';
import { AgentSample } from '../../src/model/agent/sample.js';
import { Fault } from '../../src/model/faults.js';
import { orAborted } from '../../src/platform/waits/abort.js';

/** The outcome of one run: an answer, a fault of the run (an uncounted one is thrown), or silence until it is stopped. */
export type ScriptedRun = object | Fault | 'hang';

export interface ScriptedAgent {
  environment: Environment;
  /** The runs that were started: the agent, and the row's attempt. */
  requests: { agent: string; attempt: number; key: string }[];
  /** Names of agents whose servers were asked for. */
  asked: string[];
  /** While it is set, the server is unavailable. */
  isAway: boolean;
  /** Names of agents whose servers are unavailable. */
  away: Set<string>;
  checkPlayed: () => void;
}

const URL_OF_AGENT = 'http://agent';

/** An agent of NeMo Gym with a model of its own: each run takes the next entry, and further runs fail loudly. */
export function scriptedAgent(runs: ScriptedRun[]): ScriptedAgent {
  const left = [...runs];
  const ended = new Map<string, Promise<ProgramEnd>>();
  const stop = (run: string): Promise<void> => {
    ended.delete(run);
    return Promise.resolve();
  };
  const agent: ScriptedAgent = {
    requests: [],
    asked: [],
    isAway: false,
    away: new Set(),
    checkPlayed: () => {
      if (left.length > 0) throw new Error(`${left.length} runs were not asked for`);
    },
    environment: {
      step: () => Promise.reject(new Error('an agent has no steps')),
      program: {
        rules: {
          program: {
            verify: null,
            tool_parser: 'hermes',
            reasoning_parser: 'none',
            history: 'append',
          },
          asks_policy: false,
          restart: 'replay',
          structured: 'refuse',
          limits: {
            ...{ calls: null, parallel: 16, sequences: null, sampled_tokens: null },
            ...{ body: 2 ** 20, call_ms: 60_000 },
          },
          run: null,
        },
        rows: { sampling: 'row' },
        attemptsOf: (sample) => {
          const { max_attempts, attempt_index } = AgentSample.parse(sample);
          return max_attempts - attempt_index;
        },
        outlives: false,
        health: (_, sample) => {
          const name = AgentSample.parse(sample).agent;
          agent.asked.push(name);
          if (!agent.isAway && !agent.away.has(name)) return Promise.resolve();
          const facts = { message: 'GET http://agent/ failed: refused', at: URL_OF_AGENT };
          return Promise.reject(new Fault({ type: 'EnvironmentUnavailable', ...facts }));
        },
        start: (run, how) => {
          const played = plays(how, left.shift());
          played.catch(() => undefined);
          ended.set(run, played);
          return Promise.resolve({ state: 'running' });
        },
        wait: async (run, { signal }) => await orAborted(ended.get(run) ?? never(), signal),
        endOf: ({ text, attempt, run_s }, info) =>
          endOf(text, { ...READING, sample: AgentSample.parse(info), attempt, run_s }),
        stop,
      },
    },
  };
  const plays = async (
    { task, failures = 0 }: ProgramStart,
    next: ScriptedRun | undefined,
  ): Promise<ProgramEnd> => {
    const sample = AgentSample.parse(task.metadata);
    const attempt = sample.attempt_index + failures;
    agent.requests.push({ agent: sample.agent, attempt, key: task.key });
    if (next === undefined) throw new Error('a run that no script provides for');
    if (next === 'hang') return await never();
    if (next instanceof Fault && next.uncounted) throw next;
    if (next instanceof Fault)
      return { ...bareEnd({ code: 1, tail: next.message }), failure: next };
    return endOf(JSON.stringify({ reward: 0.5, ...next }), {
      ...READING,
      ...{ sample, attempt, run_s: 0 },
    });
  };
  return agent;
}

const READING = { rules: AS_ANSWERED, subject: 'POST http://agent/run answered', at: URL_OF_AGENT };

const never = (): Promise<never> => new Promise(() => undefined);
