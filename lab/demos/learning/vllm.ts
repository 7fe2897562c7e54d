import path from 'node:path';
import { startChild } from '../../../dev/child.js';
import { PROJECT_ROOT } from '../../../src/platform/project-root.js';
import { stackEnvironment } from '../../../dev/stack-environment.js';
import type { Part } from '../../../dev/supervisor.js';

/** A policy in torch, in the example's own engine. */
export interface Torch {
  /** A Python that has torch, transformers and temporalio, and TRL where that trains. */
  python: string;
  trainer: 'own' | 'trl';
}

/** A real vLLM in place of the example's own engine, and what its trainer then needs. */
export interface Vllm {
  /** Serves the model in folder $MODEL on 127.0.0.1:$PORT, in development mode. */
  start: string;
  /** A Python that has torch, transformers and temporalio. */
  python: string;
}

/** The module with this engine's policy. */
export const QWEN = 'qwen';

/** The engine's script with a policy in torch. */
export const TORCH_ENGINE = 'torch_engine.py';

const EXPECTED = {
  ROLLOUT_LEARNING_START: 'a command that serves the model in folder $MODEL on 127.0.0.1:$PORT',
  ROLLOUT_LEARNING_PYTHON: 'a Python that has torch, transformers and temporalio',
};

/** From the environment variables. Throws if one is missing. */
export const vllmOf = (env: NodeJS.ProcessEnv): Vllm => ({
  start: given('ROLLOUT_LEARNING_START', env),
  python: given('ROLLOUT_LEARNING_PYTHON', env),
});

/** Likewise. */
export const torchOf = (trainer: Torch['trainer'], env: NodeJS.ProcessEnv): Torch => ({
  python: given('ROLLOUT_LEARNING_PYTHON', env),
  trainer,
});

function given(name: keyof typeof EXPECTED, env: NodeJS.ProcessEnv): string {
  const value = env[name] ?? '';
  if (value !== '') return value;
  throw new Error(`${name}: expected ${EXPECTED[name]}, got nothing`);
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
