import { shellWord } from '../src/platform/command.js';

/** Variables of the user's shell that would lead its commands to another server. */
const IN_THE_WAY = /^TEMPORAL_(?:PROFILE|API_KEY|TLS.*|GRPC_META_.*)$/;

export interface CopyOptions {
  /** The folder of the deployment: paths of commands are relative to it. */
  root: string;
  address: string;
  namespace: string;
  /** The folder of programs that are not on the path (`programs-folder.ts`); null: all are. */
  programs: string | null;
  env: NodeJS.ProcessEnv;
}

/** Lines that connect another shell to this stack: its folder, its address, and programs that are not on its path. */
export function linesToCopy({ root, address, namespace, programs, env }: CopyOptions): string[] {
  const inTheWay = Object.keys(env).filter((name) => IN_THE_WAY.test(name));
  const proxied = pastProxy(env);
  return [
    `cd ${shellWord(root)}`,
    ...(programs === null ? [] : [`export PATH=${shellWord(programs)}:$PATH`]),
    ...(inTheWay.length === 0 ? [] : [`unset ${inTheWay.join(' ')}`]),
    `export TEMPORAL_ADDRESS=${address}`,
    ...((env['TEMPORAL_NAMESPACE'] ?? namespace) === namespace
      ? []
      : [`export TEMPORAL_NAMESPACE=${namespace}`]),
    ...(proxied === null ? [] : [proxied]),
  ];
}

const LOOPBACK = '127.0.0.1';

/** Some programs ask a proxy even for this machine. null: there is none, or it is left out already. */
function pastProxy(env: NodeJS.ProcessEnv): string | null {
  const isSet = ['http_proxy', 'https_proxy', 'all_proxy'].some(
    (name) => (env[name] ?? env[name.toUpperCase()] ?? '') !== '',
  );
  const without = env['no_proxy'] ?? env['NO_PROXY'] ?? '';
  if (!isSet || without.split(',').some((host) => host.trim() === LOOPBACK)) return null;
  const value = shellWord([without, LOOPBACK, 'localhost'].filter((one) => one !== '').join(','));
  return `export no_proxy=${value} NO_PROXY=${value}`;
}

/**
 * A command on as many lines as `columns` need, each but the last with a backslash: a terminal that breaks it would do
 * so in the middle of a path. It is broken before options alone.
 */
export function commandLines(command: string, columns: number): string[] {
  const lines: string[] = [];
  for (const part of command.split(/ (?=--)/)) {
    const last = lines.at(-1);
    // Room for the backslash that a further part may need.
    const joins = last !== undefined && last.length + 1 + part.length + 2 <= columns;
    if (joins) lines[lines.length - 1] = `${last} ${part}`;
    else lines.push(last === undefined ? part : `  ${part}`);
  }
  return lines.map((line, i) => (i < lines.length - 1 ? `${line} \\` : line));
}
