import path from 'node:path';
import { z } from 'zod';
import { Word, Duration } from '../../model/field-kinds.js';
import { defineKind, inJavaScript } from '../kind.js';
import { STEP_QUEUE } from '../step-queue.js';
import { createModuleEnvironment } from './environment.js';

/** Python environments are services. */
function pythonIsServed(file: string): string {
  const name = path.basename(file, '.py');
  return `expected a TypeScript or JavaScript file, got ${JSON.stringify(file)}; for Python write { kind: http, url: http://127.0.0.1:9000 } and run, in its folder, python -m rollout_environment ${name}:CLASS --port 9000 (docs/python-environments.md)`;
}

export const userModule = defineKind({
  settings: z.strictObject({
    kind: z.literal('module').describe('a module of yours, which the worker loads'),
    path: Word.refine((text) => !text.endsWith('.py'), {
      error: ({ input }) => pythonIsServed(String(input)),
    }).describe('a TypeScript or JavaScript file'),
    export: Word.default('default').describe(
      'an object with `stepOne` or `step`, or a function of `settings` that makes one',
    ),
    settings: z
      .record(z.string(), z.unknown())
      .default({})
      .describe('the argument of that function'),
    in_process: z
      .boolean()
      .default(true)
      .describe(
        'set false for a module that waits for a service or a process: its steps are then separate activities',
      ),
    timeout: Duration.default('1m').describe(
      'for one call, from the moment when the module begins it',
    ),
    ...STEP_QUEUE,
  }),
  answers: ({ in_process }) => (in_process ? 'in process' : 'on this machine'),
  roles: null,
  resolve: (settings, directory) => ({
    ...settings,
    path: path.resolve(directory, settings.path),
  }),
  make: inJavaScript(createModuleEnvironment),
});
