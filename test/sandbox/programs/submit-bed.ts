import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import type { Server } from 'node:net';
import path from 'node:path';
import type { TestContext } from 'node:test';
import type { ProgramEnd } from '../../../src/environments/environment.js';
import {
  createEnvironment,
  EnvironmentSettings,
  resolvePaths,
} from '../../../src/environments/registry.js';
import { bareContext } from '../../fakes/environment-context.js';

/** Lives of `setup`, a hostile program and `submit`, without rollout and gateway. */

export const SECRET = 'the-answer-that-only-tests-know';

/** `grade.py` compares what the program answers with what is hidden beside it. It says what is in it, and no more. */
const GRADE = `import json, os, subprocess, sys
folder, here = sys.argv[1], os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(here, 'expected')) as file:
    expected = file.read()
subprocess.run(['git', '--version'], check=True, stdout=subprocess.DEVNULL)
subprocess.run(['bash', '-lc', 'true'], check=True)
with open(os.path.join(folder, 'answer')) as file:
    print(json.dumps({'right': file.read() == expected}))
`;

/** Programs have a /tmp of their own. */
export function hiddenTests(t: Pick<TestContext, 'after'>): string {
  const folder = mkdtempSync('/var/tmp/program-hidden-');
  t.after(() => {
    rmSync(folder, { recursive: true });
  });
  const hidden = path.join(folder, 'tests');
  mkdirSync(hidden);
  writeFileSync(path.join(hidden, 'grade.py'), GRADE);
  writeFileSync(path.join(hidden, 'expected'), SECRET);
  return hidden;
}

export interface Played extends ProgramEnd {
  /** Connections that came to the policy's door. */
  asked: number;
}

let lives = 0;
const { signal } = new AbortController();

/** One life, to its end; then it is stopped. */
export async function played(
  t: Pick<TestContext, 'after'>,
  settings: { run: object; limits?: object },
): Promise<Played> {
  const parsed = EnvironmentSettings.parse({ kind: 'agent', verify: 'tests', ...settings });
  const environment = await createEnvironment(resolvePaths(parsed, '/here'), bareContext());
  t.after(() => environment.close?.());
  const { program } = environment;
  assert.ok(program !== undefined);
  const name = `b/0-0.${++lives}`;
  const task = {
    ...{ base_url: 'http://127.0.0.1:1/v1', key: 'dr1.key', prompt: 'p', message_log: [] },
    metadata: {},
  };
  let asked = 0;
  const serve = (door: Server): void => {
    door.on('connection', (socket) => {
      asked += 1;
      socket.end('HTTP/1.1 204 No Content\r\n\r\n');
    });
  };
  const over = (): Promise<void> => Promise.resolve();
  await program.start(name, { task, serve, over, signal });
  try {
    const wait = () => program.wait(name, { seconds: 60, signal });
    let state = await wait();
    // One that searches a whole disk takes as long as that disk needs.
    while (state !== 'gone' && state.state === 'running') state = await wait();
    assert.ok(state !== 'gone');
    return { ...state, asked };
  } finally {
    await program.stop(name, signal);
  }
}

export const bash = (script: string): string[] => ['/bin/bash', '-c', script];
