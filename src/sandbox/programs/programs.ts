import { Fault } from '../../model/faults.js';
import { describeError } from '../../platform/errors.js';
import { onceItSucceeds } from '../../platform/waits/shared.js';
import { createFolders } from '../folders.js';
import { readProgram } from '../python.js';
import type { Watcher } from '../watch/watcher.js';
import { createWatcher } from '../watch/watcher.js';
import type { Confinement, ConfinementOptions } from './confinement.js';
import { keepOpen } from './confinement.js';
import { linesOf, pythonHere, remedyFor } from './host.js';
import { openLife } from './life.js';
import { problemOf, problemOfHidden, variablesWith } from './view.js';

/** `sandbox: programs`: each life has its own view of the machine, and no network but its way to the policy. */

export function createPrograms(options: ConfinementOptions): Confinement {
  const { name } = options;
  const watcher = createWatcher();
  const open = keepOpen();
  const opener = createOpener(options, watcher);
  return {
    health: async (signal) => {
      await opener(signal);
    },
    open: async ({ signal }) => {
      const start = await opener(signal);
      const life = await start(signal);
      return open.add({
        ...life,
        start: (command) =>
          life.start(command).catch((error: unknown) => {
            throw isOurs(error)
              ? unavailable(name, error)
              : rejected(notStarted(name, error), error);
          }),
      });
    },
    close: async () => {
      await open.close();
      await watcher.close();
    },
  };
}

type Open = (signal: AbortSignal) => ReturnType<typeof openLife>;

/** Tries the host out, once; again after a failure, for it may be changed meanwhile. */
function createOpener(
  { name, mounts, submit_mounts, limits, report }: ConfinementOptions,
  watcher: Watcher,
): (signal: AbortSignal) => Promise<Open> {
  const tryOut = async (signal: AbortSignal): Promise<Open> => {
    for (const [field, why] of [
      ['mounts', problemOf(mounts)],
      ['submit_mounts', problemOfHidden(submit_mounts, mounts)],
    ] as const)
      if (why !== null) throw rejected(`environments.${name}.run.${field}: ${why}`);
    try {
      const python = await pythonHere();
      const folders = createFolders({ python, modules: await readProgram(), report });
      const open: Open = (signal) =>
        openLife({ mounts, submit_mounts, limits, watcher, python, folders, signal }).catch(
          (error: unknown) => {
            signal.throwIfAborted();
            throw unavailable(name, error);
          },
        );
      const life = await open(signal);
      const env = variablesWith(mounts);
      await life
        .start({ argv: ['/bin/true'], env })
        .then(({ ended }) => ended)
        .finally(() => life.remove());
      for (const line of linesOf(life.ready, limits))
        report(`environments.${name}: sandbox programs: ${line}`);
      void folders.sweep();
      return open;
    } catch (error) {
      signal.throwIfAborted();
      throw error instanceof Fault ? error : unavailable(name, error);
    }
  };
  return onceItSucceeds(tryOut);
}

const rejected = (message: string, cause?: unknown): Fault =>
  new Fault({ type: 'EnvironmentRejected', message, cause });

const notStarted = (name: string, error: unknown): string =>
  `environments.${name}.run: ${describeError(error)}; programs see the system's (/usr) and what run.mounts names`;

/** As python/sandbox/programs.py says what is not the command's fault. */
const OURS = 'its sandbox cannot be had: ';
const isOurs = (error: unknown): boolean => describeError(error).startsWith(OURS);

function unavailable(name: string, error: unknown): Fault {
  const why = describeError(error).replace(OURS, '');
  const remedy = remedyFor(why);
  const message =
    `environments.${name}.run.sandbox: programs cannot be had on this host: ${why}${remedy === '' ? '' : ` (${remedy})`}. ` +
    'On a host that is a sandbox itself (a container, a virtual machine) write sandbox: none, which puts nothing around what the policy runs';
  return new Fault({ type: 'EnvironmentUnavailable', message, cause: error });
}
