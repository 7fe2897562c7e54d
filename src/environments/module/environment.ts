import { toMs } from '../../model/workflow-safe/durations.js';
import type { EnvironmentContext } from '../environment-context.js';
import type { Environment } from '../environment.js';
import { createHttpEnvironment } from '../http/environment.js';
import { createModuleCalls } from './calls.js';
import { NO_TIMEOUT_MS } from './process.js';
import { subjectOf, type ModuleStart } from './wire.js';

export interface ModuleSettings extends Pick<ModuleStart, 'path' | 'export' | 'settings'> {
  timeout: string;
}

/** A user's module, which a process of its own serves as kind `http`. Throws an error that names file and export. */
export async function createModuleEnvironment(
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
