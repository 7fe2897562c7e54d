import path from 'node:path';
import { nearPath } from '../src/platform/near-path.js';
import type { Stack } from './stack.js';

export interface Introduced extends Pick<
  Stack,
  | 'address'
  | 'namespace'
  | 'uiUrl'
  | 'viewerUrl'
  | 'engine'
  | 'engineFaults'
  | 'simulatorUrl'
  | 'logs'
  | 'settings'
> {
  /** The temporal.yaml that the stack was started with. */
  config: string;
  /** Process of the worker; null while there is none. */
  worker: number | null;
  /** null: no batch is started. */
  batchId: string | null;
}

/** What a stack consists of, a line for each part. */
export function introduction(stack: Introduced): string {
  const {
    address,
    uiUrl,
    viewerUrl,
    engine,
    engineFaults,
    simulatorUrl,
    worker,
    logs,
    settings,
    config,
    batchId,
  } = stack;
  return [
    `Temporal server  ${address}, Web UI ${uiUrl}`,
    `rollouts         ${viewerUrl}`,
    engine === null
      ? `simulator        ${simulatorUrl}, in place of a GPU service`
      : `engine           ${engine}`,
    ...engineFaults.map((fault) => `  ${fault}`),
    ...(engineFaults.length === 0
      ? []
      : [
          `  --engine URL names another engine; without generation in ${path.basename(config)}, or`,
          '  with --simulator FILE, the simulator plays',
        ]),
    `worker           process ${worker ?? 'none'}`,
    `logs             ${nearPath(logs)}`,
    `settings         ${nearPath(settings)}`,
    `                 what it runs with, made from ${path.basename(config)} at each start`,
    ...(batchId === null
      ? []
      : [`batch            ${batchId}`, `  ${batchLink({ ...stack, batchId })}`]),
    '',
  ].join('\n');
}

export const batchLink = ({
  uiUrl,
  namespace,
  batchId,
}: Pick<Stack, 'uiUrl' | 'namespace'> & { batchId: string }): string =>
  `${uiUrl}/namespaces/${namespace}/workflows/${encodeURIComponent(batchId)}`;
