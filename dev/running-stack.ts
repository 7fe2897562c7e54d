import { readFile, rm } from 'node:fs/promises';
import path from 'node:path';
import { isFull, replaceFile } from '../src/platform/files.js';

/** What a running stack says of itself, in `stack.json` of its folder. Whoever has claimed the folder writes it. */
export interface RunningStack {
  /** Process of `temporal-rollout up`. */
  pid: number;
  /** The version of the package. */
  version: string;
  address: string;
  namespace: string;
  task_queue: string;
  ui_url: string;
  /** The page of its rollouts. Its token is why others may not read this file. */
  viewer_url: string;
  /** Base URLs of its engines, with `/v1`; null: the simulator. */
  engine: string | null;
  /** What kept them from playing when it started, and what to do. */
  engine_faults: string[];
  settings: string;
  /** The temporal.yaml that it was started with, of which its settings are made. */
  config: string;
  logs: string;
  /** Environments that other processes serve to it and that its worker knows, with their URLs. */
  served: Record<string, string>;
  /** Names of those in its temporal.yaml. */
  environments: string[];
  /** Lines that let another terminal reach it. */
  lines: string[];
  /** Whether it ends once nobody uses it (`users.ts`). */
  ends_unused: boolean;
}

const fileIn = (folder: string): string => path.join(folder, 'stack.json');

export async function sayRunning(folder: string, stack: RunningStack): Promise<void> {
  await replaceFile(fileIn(folder), {
    content: `${JSON.stringify(stack, null, 2)}\n`,
    file_mode: 0o600,
  });
}

/** Where a stack with this temporal.yaml keeps its files. */
export const stackFolder = (config: string): string =>
  path.join(path.dirname(path.resolve(config)), '.rollouts');

export const forgetRunning = (folder: string): Promise<void> => rm(fileIn(folder), { force: true });

/** Why the server of the stack in this folder may be silent; null: the folder does not show it. */
export const whySilent = async (folder: string): Promise<string | null> =>
  (await isFull(folder))
    ? `the disk of ${folder} is full, where the server has its database`
    : null;

/** null: it says nothing, because none runs, or it starts or ends. */
export async function whatRuns(folder: string): Promise<RunningStack | null> {
  try {
    return JSON.parse(await readFile(fileIn(folder), 'utf8')) as RunningStack;
  } catch {
    return null;
  }
}
