import path from 'node:path';
import { startChild } from '../../src/platform/process/child.js';
import { PROJECT_ROOT } from '../../src/platform/project-root.js';
import { stackEnvironment } from '../../src/dev/stack-environment.js';
import type { Part } from '../../src/dev/supervisor.js';

/** A real vLLM in place of the example's own engine, and what its trainer then needs. */
export interface Vllm {
  /** Serves the model in folder $MODEL on 127.0.0.1:$PORT, in development mode. */
  start: string;
  /** A Python that has torch, transformers and temporalio. */
  python: string;
}

/** The module with this engine's policy. */
export const VLLM_MODEL = 'qwen';

const EXPECTED = {
  ROLLOUT_LEARNING_START: 'a command that serves the model in folder $MODEL on 127.0.0.1:$PORT',
  ROLLOUT_LEARNING_PYTHON: 'a Python that has torch, transformers and temporalio',
};

/** From the environment variables. Throws if one is missing. */
export function vllmOf(env: NodeJS.ProcessEnv): Vllm {
  const given = (name: keyof typeof EXPECTED): string => {
    const value = env[name] ?? '';
    if (value !== '') return value;
    throw new Error(`${name}: expected ${EXPECTED[name]}, got nothing`);
  };
  return { start: given('ROLLOUT_LEARNING_START'), python: given('ROLLOUT_LEARNING_PYTHON') };
}

/** `model`: the folder of the model to serve. */
export function vllmPart(
  { start }: Vllm,
  { model, port, logs }: { model: string; port: number; logs: string },
): Part {
  const logFile = path.join(logs, 'engine.log');
  return {
    name: 'engine',
    logFile,
    ready: /Application startup complete/,
    start: () =>
      startChild({
        command: 'bash',
        args: ['-c', start],
        cwd: PROJECT_ROOT,
        env: { ...stackEnvironment(process.env), MODEL: model, PORT: String(port) },
        logFile,
        ends: 'kernel',
      }),
  };
}
