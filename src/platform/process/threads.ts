import type { WorkerOptions } from 'node:worker_threads';
import { Worker } from 'node:worker_threads';

/** Of a module of this project. `beside`: the URL of one in the same folder; `name` has no extension. */
export function startThread(
  { beside, name }: { beside: string; name: string },
  options: WorkerOptions = {},
): Worker {
  const isSource = beside.endsWith('.ts');
  const file = new URL(`./${name}.${isSource ? 'ts' : 'js'}`, beside);
  if (!isSource) return new Worker(file, options);
  // The loader of tsx does not extend to threads. Such a thread resolves packages from the working directory, so tsx is
  // named by its URL.
  const api = import.meta.resolve('tsx/esm/api');
  const text = `import('${api}').then(({ register }) => { register(); return import('${file.href}'); })`;
  return new Worker(text, { ...options, eval: true });
}
