import type { Screen } from '../src/client/screen.js';
import { createScreen } from '../src/client/screen.js';
import type { Interrupts } from '../src/platform/process/interrupts.js';
import { INTERRUPTED, listenForInterrupts } from '../src/platform/process/interrupts.js';
import { PROJECT_ROOT } from '../src/platform/project-root.js';
import { claimFolder } from './folder-claim.js';
import type { StackPlace } from './stack.js';
import { createSupervisor } from './supervisor.js';
import type { TemporalCli } from '../tools/temporal-cli/find.js';
import { findTemporalCli } from '../tools/temporal-cli/find.js';

/** What a command has that starts a stack in a folder and watches it. */
export interface StackSession {
  place: StackPlace;
  cli: TemporalCli;
  screen: Screen;
  interrupts: Interrupts;
}

/** However it ends, no process is left and the folder is free again. */
export async function inSession<T>(
  folder: string,
  run: (session: StackSession) => Promise<T>,
): Promise<T> {
  const screen = createScreen(process.stdout, process.env);
  const { say } = screen;
  const cli = await findTemporalCli({ env: process.env, projectRoot: PROJECT_ROOT, say });
  const claim = await claimFolder(folder, say);
  const supervisor = createSupervisor({
    say,
    giveUp: (reason) => {
      interrupts.abort(reason);
    },
  });
  const interrupts = listenForInterrupts(process.env, () => {
    supervisor.kill();
    screen.close();
    process.exit(INTERRUPTED);
  });
  try {
    const place = { projectRoot: PROJECT_ROOT, folder, cliPath: cli.path, claim, supervisor };
    return await run({ place, cli, screen, interrupts });
  } finally {
    screen.close();
    await supervisor.stop();
    await claim.release();
    interrupts.forget();
  }
}

/** Throws if a part died again and again. */
export function throwIfPartFailed({ signal }: Interrupts): void {
  if (signal.reason instanceof Error && signal.reason.name !== 'AbortError') throw signal.reason;
}
