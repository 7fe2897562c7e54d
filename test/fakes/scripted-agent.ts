import type { AgentAnswer, AgentRequest, Environment } from '../../src/environments/environment.js';
import { Fault } from '../../src/model/faults.js';

/** The outcome of one run: an answer, a fault to throw, or silence until it is aborted. */
export type ScriptedRun = Partial<AgentAnswer> | Error | 'hang';

export interface ScriptedAgent {
  environment: Environment;
  /** The requests, without the signal. */
  requests: Omit<AgentRequest, 'signal' | 'keep'>[];
  /** How often its address was requested. */
  asked: string[];
  /** While it is set, the server is unavailable. */
  isAway: boolean;
  /** Names of agents whose servers are unavailable. */
  away: Set<string>;
  checkPlayed: () => void;
}

const URL_OF_AGENT = 'http://agent';

/** An environment that is an agent: each run takes the next entry, and further runs fail loudly. */
export function scriptedAgent(runs: ScriptedRun[]): ScriptedAgent {
  const left = [...runs];
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
      agent: {
        health: (name) => {
          agent.asked.push(name);
          if (!agent.isAway && !agent.away.has(name)) return Promise.resolve(URL_OF_AGENT);
          const facts = { message: 'GET http://agent/ failed: refused', at: URL_OF_AGENT };
          return Promise.reject(new Fault({ type: 'EnvironmentUnavailable', ...facts }));
        },
        run: async ({ signal, keep, ...request }) => {
          agent.requests.push(request);
          const next = left.shift();
          if (next === undefined) throw new Error('a run that no script provides for');
          if (next instanceof Error) throw next;
          if (next === 'hang') return await untilAborted(signal);
          await keep({ ...ANSWER, ...next });
        },
      },
    },
  };
  return agent;
}

const ANSWER: AgentAnswer = {
  text: '{"reward":0.5}',
  reward: 0.5,
  failure_class: null,
  terminal: false,
  persist: true,
  usage: null,
};

const untilAborted = (signal: AbortSignal): Promise<never> =>
  new Promise((_, reject) => {
    signal.addEventListener('abort', () => {
      reject(signal.reason as Error);
    });
  });
