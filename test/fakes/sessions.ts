import type { TestContext } from 'node:test';
import type { Environment, Metadata, StepContext } from '../../src/environments/environment.js';
import { Fault } from '../../src/model/faults.js';
import { SESSION_KEY } from '../../src/model/journal/session.js';
import type { Bench } from './activity-bench.js';
import { activityBench } from './activity-bench.js';
import type { ScriptedAnswer, ScriptedEnvironment } from './scripted-environment.js';
import { scriptedEnvironment } from './scripted-environment.js';
import type { ScriptedReply } from './scripted-service.js';
import { scriptedService } from './scripted-service.js';
import { BATCH, REF, requestOf, sampleOf } from './temporary-store.js';
import { plainOf } from '../../src/platform/json/kept.js';

/** An environment with sessions: it numbers them, and records which it ended. */
export interface Sessions extends ScriptedEnvironment {
  begun: { key: string; metadata: Metadata }[];
  ended: unknown[];
  end_keys: string[];
  was_asked: (boolean | undefined)[];
  /** The call, and whose it was. */
  deployments: [string, string | undefined][];
}

export interface Given {
  script?: (ScriptedAnswer | Error)[];
  says?: ScriptedReply[];
  /** The beginning of sessions, besides the sample's state. */
  first?: { content?: string; state?: Metadata };
  /** Errors of each `begin` and `end`, in order; later calls succeed. */
  begin?: Error[];
  end?: Error[];
  /** `begin` reports that there are no sessions, and `end` that there is nothing to end. */
  none?: boolean;
  sample?: string;
  request?: Record<string, unknown>;
  /** Whether `openRollout` plays on. */
  plays_on?: boolean;
}

function sessionsOf({
  script = [],
  first: { content = 'now', state } = {},
  begin = [],
  end = [],
  none = false,
}: Given): Sessions {
  const scripted = scriptedEnvironment(script);
  const failures = { begin: [...begin], end: [...end] };
  const begun: Sessions['begun'] = [];
  const ended: unknown[] = [];
  const end_keys: string[] = [];
  const was_asked: (boolean | undefined)[] = [];
  const deployments: Sessions['deployments'] = [];
  const sessions: Environment = {
    steps_once: true,
    begin: ({ metadata: given }, { idempotency_key: key, deployment }) => {
      const metadata = plainOf(given);
      begun.push({ key, metadata });
      deployments.push(['begin', deployment]);
      const failure = failures.begin.shift();
      if (failure !== undefined) return Promise.reject(failure);
      if (none) return Promise.resolve(null);
      return Promise.resolve({
        messages: [{ role: 'user', content }],
        metadata: { ...metadata, ...state, [SESSION_KEY]: begun.length },
      });
    },
    end: (metadata, { idempotency_key, deployment }) => {
      ended.push(plainOf(metadata)[SESSION_KEY]);
      deployments.push(['end', deployment]);
      end_keys.push(idempotency_key);
      const failure = failures.end.shift();
      return failure === undefined ? Promise.resolve(!none) : Promise.reject(failure);
    },
    step: (input, context: StepContext) => {
      was_asked.push(context.was_asked);
      deployments.push(['step', context.deployment]);
      return scripted.step(input, context);
    },
  };
  return { ...scripted, ...sessions, begun, ended, end_keys, was_asked, deployments };
}

export async function planned(
  t: TestContext,
  given: Given = {},
): Promise<Bench & { sessions: Sessions }> {
  const sessions = sessionsOf(given);
  const service = scriptedService(given.says ?? []);
  const bench = await activityBench(t, {
    environment: sessions,
    service,
    plays_on: given.plays_on ?? false,
  });
  await bench.store.createBatch({
    batch_id: BATCH,
    request: requestOf({ generation: { model: 'policy' }, ...given.request }),
    samples: [given.sample ?? sampleOf('go', { extra_env_info: { level: 1 } })],
  });
  return { ...bench, sessions };
}

export const lost = new Fault({ type: 'EnvironmentStateLost', message: 'restarted' });
export const away = new Fault({ type: 'EnvironmentUnavailable', message: 'away' });
export const read = (bench: Bench) => bench.elsewhere().readTrajectory(REF);
export const kindsOf = async (bench: Bench): Promise<string[]> =>
  (await bench.journalLines()).map(({ kind }) => kind).filter((kind) => kind !== 'claim');
export const finish = (bench: Bench, stop_reason: 'failed' | null = 'failed') =>
  bench.result('finishRollout', { rollout: REF, stop_reason, failure: null });
