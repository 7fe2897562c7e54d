import { toMs } from '../../model/workflow-safe/durations.js';
import type { Environment } from '../environment.js';
import { createHttpEnvironment } from '../http/environment.js';
import { createModuleCalls } from './calls.js';
import { NO_TIMEOUT_MS } from './process.js';
import { subjectOf } from './wire.js';
import path from 'node:path';
import { z } from 'zod';
import { Duration, On, Word } from '../../model/field-kinds.js';
import { defineKind, inJavaScript, type EnvironmentContext, STEP_QUEUE } from '../kind.js';

/** A user's module, which a process of its own serves as kind `http`. Throws an error that names file and export. */
async function createModuleEnvironment(
  { path, export: name, settings, timeout }: ModuleSettings,
  context: EnvironmentContext,
): Promise<Environment> {
  const { environments } = context;
  const timeout_ms = toMs(timeout);
  const start = { path, export: name, settings, name: context.name, environments, timeout_ms };
  const calls = createModuleCalls({ start, context });
  const has = await calls.ready();
  const given = { url: subjectOf(start), timeout_ms: NO_TIMEOUT_MS };
  const served = createHttpEnvironment(given, calls);
  const isOwn = (name: string): boolean => name === 'step' || has.some((one) => one === name);
  let closed = false;
  const own = {
    ...Object.fromEntries(Object.entries(served).filter(([name]) => isOwn(name))),
    close: async () => {
      if (closed) return;
      closed = true;
      const { signal } = new AbortController();
      try {
        if (has.includes('close')) await calls.send({ method: 'POST', path: '/close', signal });
      } finally {
        await calls.close();
      }
    },
  };
  // Metadata comes back as text, which `withPlainMetadata` reads as well.
  return own as unknown as Environment;
}

/** Python environments are services. */
function pythonIsServed(file: string): string {
  const name = path.basename(file, '.py');
  return `expected a TypeScript or JavaScript file, got ${JSON.stringify(file)}; for Python write { kind: http, url: http://127.0.0.1:9000 } and run, in its folder, python -m rollout_environment ${name}:CLASS --port 9000 (docs/python-environments.md)`;
}

const ModuleSettings = z.strictObject({
  kind: z.literal('module').describe('a module of yours, which the worker loads'),
  path: Word.refine((text) => !text.endsWith('.py'), {
    error: ({ input }) => pythonIsServed(String(input)),
  }).describe('a TypeScript or JavaScript file'),
  export: Word.default('default').describe(
    'an object with `stepOne` or `step`, or a function of `settings` that makes one',
  ),
  settings: z.record(z.string(), z.unknown()).default({}).describe('the argument of that function'),
  in_process: On.describe(
    'set false for a module that waits for a service or a process: its steps are then separate activities',
  ),
  timeout: Duration.default('1m').describe(
    'for one call, from the moment when the module begins it',
  ),
  ...STEP_QUEUE,
});
type ModuleSettings = z.infer<typeof ModuleSettings>;

export const userModule = defineKind({
  settings: ModuleSettings,
  answers: ({ in_process }) => (in_process ? 'in process' : 'on this machine'),
  roles: null,
  resolve: (settings, directory) => ({
    ...settings,
    path: path.resolve(directory, settings.path),
  }),
  make: inJavaScript(createModuleEnvironment),
});
