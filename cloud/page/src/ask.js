// The JSON of the office. What it refuses is an Error that says why, in its words.

export async function ask(path, body, options = {}) {
  const more = body === undefined ? {} : { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  const answer = await fetch(path, { ...more, ...options });
  const found = await answer.json().catch(() => ({ error: `the office answered ${answer.status}` }));
  if (!answer.ok) throw new Error(found.error ?? `the office answered ${answer.status}`);
  return found;
}
