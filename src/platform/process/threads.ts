import type { WorkerOptions } from 'node:worker_threads';
import { Worker } from 'node:worker_threads';
import { fileURLToPath } from 'node:url';

interface Beside {
  beside: string;
  name: string;
}

/** Arguments of a process of Node.js that plays such a module. */
export function nodeArguments({ beside, name }: Beside): string[] {
  const isSource = beside.endsWith('.ts');
  const file = fileURLToPath(new URL(`./${name}.${isSource ? 'ts' : 'js'}`, beside));
  return isSource ? ['--import', import.meta.resolve('tsx'), file] : [file];
}

/**
 * Starts a thread with a module of this project. `beside`: the URL of a module in the same folder; `name` has no
 * extension.
 */
export function startThread({ beside, name }: Beside, options: WorkerOptions = {}): Worker {
  const isSource = beside.endsWith('.ts');
  const file = new URL(`./${name}.${isSource ? 'ts' : 'js'}`, beside);
  if (!isSource) return new Worker(file, options);
  // The loader of tsx does not extend to threads. Such a thread resolves packages from the working directory, so tsx is
  // named by its URL.
  const api = import.meta.resolve('tsx/esm/api');
  const text = `import('${api}').then(({ register }) => { register(); return import('${file.href}'); })`;
  return new Worker(text, { ...options, eval: true });
}
