import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { parseDocument } from 'yaml';
import { describeError } from '../model/faults.js';

export interface LocalConfigOptions {
  /** The deployment's temporal.yaml; its relative paths are relative to it. */
  source: string;
  /** Where the local stack's copy goes. */
  target: string;
  address: string;
  namespace: string;
  /** Base URL of the simulator, with `/v1`. */
  generationUrl: string;
}

export interface LocalConfig {
  /** Absolute. */
  inputsDir: string;
  taskQueue: string;
}

/**
 * Writes the settings of the local stack: the project's own, with absolute paths, this stack's Temporal server and its
 * simulator as the service `default`. Throws when the source is missing or is not YAML; the worker checks the rest.
 */
export async function writeLocalConfig(options: LocalConfigOptions): Promise<LocalConfig> {
  const { source, target, address, namespace, generationUrl } = options;
  const document = parseDocument(await readSettings(source));
  const [problem] = document.errors;
  if (problem !== undefined) throw new Error(`${source} is not YAML: ${problem.message}`);
  const textAt = (at: string[], otherwise: string): string => {
    const value = document.getIn(at);
    return typeof value === 'string' ? value : otherwise;
  };
  const base = path.dirname(path.resolve(source));
  const inputsDir = path.resolve(base, textAt(['inputs_dir'], '.'));
  const taskQueue = textAt(['temporal', 'task_queue'], 'rollouts');
  // A profile would bring back the address and the keys of the user's temporal.toml.
  document.setIn(['temporal'], { profile: null, address, namespace, task_queue: taskQueue });
  document.setIn(['inputs_dir'], inputsDir);
  document.setIn(
    ['store', 'root'],
    path.resolve(base, textAt(['store', 'root'], '.rollouts/trajectories')),
  );
  document.setIn(['generation', 'default', 'base_urls'], [generationUrl]);
  // Both are about the service that the simulator stands in for.
  document.setIn(['generation', 'default', 'api_key_env'], null);
  document.setIn(['generation', 'default', 'model'], null);
  document.commentBefore = ` Written by each start of the local stack, from ${path.resolve(source)}`;
  await mkdir(path.dirname(target), { recursive: true });
  // A worker that starts again reads the old file or the new one.
  await writeFile(`${target}.new`, String(document));
  await rename(`${target}.new`, target);
  return { inputsDir, taskQueue };
}

async function readSettings(source: string): Promise<string> {
  try {
    return await readFile(source, 'utf8');
  } catch (error) {
    throw new Error(`the settings cannot be read: ${describeError(error)}`);
  }
}
