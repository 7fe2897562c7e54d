import { homedir } from 'node:os';
import path from 'node:path';

/** Where this user's caches are: `XDG_CACHE_HOME`, else the platform's folder. */
export function userCacheFolder(env: NodeJS.ProcessEnv): string {
  const xdg = env['XDG_CACHE_HOME'];
  if (xdg !== undefined && path.isAbsolute(xdg)) return xdg;
  const home = env['HOME'] ?? homedir();
  return process.platform === 'darwin'
    ? path.join(home, 'Library', 'Caches')
    : path.join(home, '.cache');
}
