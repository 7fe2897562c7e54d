/** What to do about an engine that answers with this status; null: it does not refuse the key. */
export function refusedKey(
  status: number | null,
  { api_key_env }: { api_key_env: string | null },
): string | null {
  if (status !== 401 && status !== 403) return null;
  return api_key_env === null
    ? 'it wants a key: api_key_env names the environment variable that holds it'
    : `the key in ${api_key_env} is not the one that it takes`;
}
