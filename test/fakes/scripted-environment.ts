import assert from 'node:assert/strict';
import type { Environment, Metadata, Turn } from '../../src/environments/environment.js';
import type { Content } from '../../src/model/content.js';
import { plainOf } from '../../src/platform/json/kept.js';

/** An environment that plays a script, one answer per step, and fails loudly when the script runs out. */

export interface ScriptedAnswer {
  content?: Content;
  role?: string;
  reward?: number | Record<string, number>;
  terminated?: boolean;
  metadata?: Metadata | null;
  next_stop_strings?: string[] | null;
}

export interface ScriptedEnvironment extends Environment {
  readonly steps: (Turn & { idempotency_key: string })[];
  checkPlayed: () => void;
}

export function scriptedEnvironment(
  script: readonly (ScriptedAnswer | Error)[],
): ScriptedEnvironment {
  const left = [...script];
  const steps: ScriptedEnvironment['steps'] = [];
  let unscripted = 0;
  return {
    steps,
    checkPlayed: () => {
      assert.equal(unscripted, 0, 'more was stepped than the script has');
      assert.equal(left.length, 0, `${left.length} answers were not asked for`);
    },
    step: ({ message_log, metadata: state }, { idempotency_key }) => {
      const turn = { message_log, metadata: plainOf(state) };
      steps.push({ ...structuredClone(turn), idempotency_key });
      const answer = left.shift();
      if (answer === undefined) {
        unscripted += 1;
        assert.fail(`the script has run out: step ${steps.length} was not expected`);
      }
      if (answer instanceof Error) return Promise.reject(answer);
      const { content = 'seen', role = 'environment', reward = 0 } = answer;
      const { terminated = false, metadata = null, next_stop_strings = null } = answer;
      const observation = { role, content };
      return Promise.resolve({ observation, reward, terminated, metadata, next_stop_strings });
    },
  };
}
