import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { createCode } from '../../../src/environments/code/environment.js';
import { createLocalSandbox } from '../../../src/environments/code/local-sandbox.js';
import { textLog, textOf } from '../../../src/model/content.js';
import type { Level } from '../../../src/sandbox/levels.js';
import type { Sandbox } from '../../../src/sandbox/snippets/outcomes.js';
import type { CodeSettings } from '../../../src/environments/code/settings.js';
import type {
  Environment,
  EnvironmentMessage,
  Metadata,
} from '../../../src/environments/environment.js';
import { EnvironmentSettings } from '../../../src/environments/registry.js';

/** Rollouts of the code environment, without engine and journal. */

export function codeSettings(fields: Record<string, unknown> = {}): CodeSettings {
  const settings = EnvironmentSettings.parse({ kind: 'code', ...fields });
  if (settings.kind !== 'code') throw new Error('not settings of the code environment');
  return settings;
}

const silent = (): void => undefined;

export interface Bed {
  environment: Environment;
  sandbox: Sandbox;
  rollout: (more?: { key?: string; signal?: AbortSignal }) => Rollout;
}

/** An environment that is closed after the test. Without `level`: the strongest of this machine. */
export function codeBed(
  t: { after: (close: () => Promise<void> | undefined) => void },
  {
    level,
    report = silent,
    ...fields
  }: Record<string, unknown> & { level?: Level; report?: (message: string) => void } = {},
): Bed {
  const settings = codeSettings(fields);
  const levels = level === undefined ? {} : { levels: [level] };
  const sandbox = createLocalSandbox({ settings, report, ...levels });
  const environment = createCode(settings, sandbox);
  t.after(() => environment.close?.());
  return { environment, sandbox, rollout: (more) => createRollout(environment, more) };
}

export interface Rollout {
  log: EnvironmentMessage[];
  metadata: Metadata;
  key: string;
  /** One turn: it is added to the log. */
  say: (message: string) => Promise<Answer>;
  /** One turn of code: what the observation says between `<result>` and `</result>`. */
  run: (code: string) => Promise<string>;
}

interface Answer {
  content: string;
  terminated: boolean;
}

export function createRollout(
  environment: Environment,
  {
    key = randomUUID(),
    signal = new AbortController().signal,
  }: { key?: string; signal?: AbortSignal } = {},
): Rollout {
  const rollout: Rollout = {
    log: [{ role: 'user', content: 'question' }],
    metadata: {},
    key,
    say: async (content) => {
      const log = [...rollout.log, { role: 'assistant', content }];
      const answer = await environment.step(
        { message_log: log, metadata: rollout.metadata },
        { idempotency_key: `${rollout.key}/${rollout.log.length}`, signal },
      );
      const { observation, terminated, metadata } = answer;
      assert.ok(observation !== null);
      rollout.log = [...log, ...textLog([observation])];
      rollout.metadata = metadata ?? rollout.metadata;
      return { content: textOf(observation.content), terminated };
    },
    run: async (code) => {
      const { content } = await rollout.say(`<code>${code}</code>`);
      return /<result>\n?(.*?)\n?<\/result>$/s.exec(content)?.[1] ?? content;
    },
  };
  return rollout;
}

const hasBubblewrap = (process.env['PATH'] ?? '')
  .split(path.delimiter)
  .some((folder) => existsSync(path.join(folder, 'bwrap')));

const hasLandlock =
  process.platform === 'linux' &&
  execFileSync('python3', [
    '-c',
    'import ctypes; print(ctypes.CDLL(None).syscall(444, None, 0, 1))',
  ])
    .toString()
    .trim() !== '-1';

/** The levels beside `unsafe`, and why this machine lacks one. */
export const LEVELS_HERE: { level: Level; missing: string | false }[] = [
  { level: 'landlock+seccomp', missing: hasLandlock ? false : 'this kernel has no Landlock' },
  {
    level: 'bubblewrap+landlock+seccomp',
    missing: hasBubblewrap && hasLandlock ? false : 'no bwrap on PATH',
  },
];

/** Processes with this name (`comm`), with any parents and namespaces. */
export function processesNamed(name: string): number[] {
  return readdirSync('/proc')
    .filter((entry) => /^\d+$/.test(entry))
    .filter((pid) => {
      try {
        return readFileSync(`/proc/${pid}/comm`, 'utf8').trim() === name;
      } catch {
        return false;
      }
    })
    .map(Number);
}
