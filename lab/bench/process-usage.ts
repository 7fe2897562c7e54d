import { readFile } from 'node:fs/promises';

/** Linux counts in ticks of 10 ms on any kernel. */
const TICK_MS = 10;

/** CPU milliseconds of all threads of a process so far, user and system, from /proc/<pid>/stat. */
export async function cpuMs(pid: number): Promise<number> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8');
  // The second field, the name in parentheses, may contain spaces, so fields are counted after it.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const [user, system] = [Number(fields[11]), Number(fields[12])];
  return (user + system) * TICK_MS;
}

/** The peak resident memory of a process, in MB. */
export const peakMb = (pid: number): Promise<number> => statusMb(pid, 'VmHWM');

/** The current resident memory of a process, in MB. */
export const residentMb = (pid: number): Promise<number> => statusMb(pid, 'VmRSS');

export interface Usage {
  cpu_ms: number;
  peak_mb: number;
}

/** Usage of the process so far; null: it has ended, and the last reading counts. */
export async function usageOf(pid: number): Promise<Usage | null> {
  try {
    const [cpu_ms, peak_mb] = await Promise.all([cpuMs(pid), peakMb(pid)]);
    return { cpu_ms, peak_mb };
  } catch {
    return null;
  }
}

/** A field of /proc/<pid>/status. */
async function statusMb(pid: number, field: 'VmHWM' | 'VmRSS'): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8');
  const [, kilobytes] = new RegExp(`^${field}:\\s+(\\d+) kB$`, 'm').exec(status) ?? [];
  if (kilobytes === undefined) throw new Error(`/proc/${pid}/status has no ${field}`);
  return Number(kilobytes) / 1024;
}
