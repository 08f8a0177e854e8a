// Treering in OpenCode: what hooks are in other coding agents. `treering disconnect opencode` removes this file.
// Nothing here fails or holds up a session: each call has a time limit, and what goes wrong tells nothing.
import { spawn } from "node:child_process"

const MOST_OUTPUT = 20_000
const MOST_TRANSCRIPT = 8_000_000
const MOST_TOLD = 2_000 // of the output of each tool

// Calls `treering session WORD`; gives what it wants told, and an empty text where that is nothing.
const call = (word, given) =>
  new Promise((resolve) => {
    const limit = LIMITS[word]
    if (!limit) return resolve("")
    let answer = ""
    let child
    const done = () => {
      clearTimeout(timer)
      let told
      try {
        told = JSON.parse(answer).hookSpecificOutput?.additionalContext
      } catch {}
      resolve(typeof told === "string" ? told : "")
    }
    const timer = setTimeout(() => {
      answer = ""
      child?.kill()
      done()
    }, limit)
    try {
      child = spawn(COMMAND[0], [...COMMAND.slice(1), word], {
        cwd: given.cwd,
        stdio: ["pipe", "pipe", "ignore"],
        windowsHide: true,
      })
      child.on("error", done)
      child.on("close", done)
      child.stdout.setEncoding("utf8").on("data", (text) => (answer += text))
      child.stdin.on("error", () => {})
      child.stdin.end(JSON.stringify(given))
    } catch {
      done()
    }
  })

const quietly = (work) => async (input, output) => {
  try {
    await work(input, output)
  } catch {}
}

const textOf = (parts) =>
  parts
    .filter((part) => part.type === "text" && !part.synthetic && !part.ignored)
    .map((part) => part.text)
    .join("\n")

// What a tool did, as a message that is not a word of anybody's: files edited and commands that fail are noted of it.
const toolsOf = (parts) =>
  parts
    .filter((part) => part.type === "tool" && part.state.status !== "pending")
    .flatMap(({ callID, tool, state }) => [
      { type: "tool_use", id: callID, name: tool, input: state.input },
      {
        type: "tool_result",
        tool_use_id: callID,
        content: String(state.output ?? state.error ?? "").slice(-MOST_TOLD),
        is_error: state.status === "error" || Boolean(state.metadata?.exit),
      },
    ])

const answerOf = ({ output, content, structuredContent }) =>
  JSON.stringify(output ?? [content, structuredContent]).slice(0, MOST_TRANSCRIPT)

export const Treering = async ({ client, directory }) => {
  const begun = new Set()
  const ofAgents = new Set() // sessions that another session started
  let keeping = Promise.resolve()

  const given = (event, session, more) => ({ hook_event_name: event, session_id: session, cwd: directory, ...more })

  const keep = async (session) => {
    if (!LIMITS.keep || ofAgents.has(session)) return
    const { data } = await client.session.messages({ path: { id: session } })
    const messages = (data ?? [])
      .flatMap(({ info, parts }) => [
        { role: "tool", content: toolsOf(parts), timestamp: info.time.created / 1000 },
        { role: info.role, content: textOf(parts), timestamp: info.time.created / 1000 },
      ])
      .filter((one) => (typeof one.content === "string" ? one.content.trim() : one.content.length))
    const told = given("session.idle", session, { messages })
    if (messages.length && JSON.stringify(told).length <= MOST_TRANSCRIPT) await call("keep", told)
  }

  return {
    event: quietly(async ({ event }) => {
      if (event.type === "session.created" && event.properties.info.parentID) ofAgents.add(event.properties.info.id)
      if (event.type === "session.compacted") begun.delete(event.properties.sessionID) // its brief is gone
      if (event.type !== "session.idle") return
      keeping = Promise.allSettled([keeping, keep(event.properties.sessionID)])
      await keeping
    }),

    dispose: quietly(async () => {
      let timer
      await Promise.race([keeping, new Promise((resolve) => (timer = setTimeout(resolve, LIMITS.keep)))])
      clearTimeout(timer) // else whoever runs this would not end before it
    }),

    "chat.message": quietly(async ({ sessionID }, { message, parts }) => {
      if (ofAgents.has(sessionID)) return
      const isNew = !begun.has(sessionID)
      begun.add(sessionID)
      const prompt = textOf(parts)
      const told = await Promise.all([
        isNew ? call("begin", given("chat.message", sessionID)) : "",
        prompt ? call("prompt", given("chat.message", sessionID, { prompt })) : "",
      ])
      // OpenCode orders the parts of a message by their ids: ours comes after the last one.
      const last = parts.map((part) => part.id).filter(Boolean).sort().at(-1)
      const text = told.filter(Boolean).join("\n\n")
      if (text && last)
        parts.push({ id: `${last}treering`, sessionID, messageID: message.id, type: "text", text, synthetic: true })
    }),

    "tool.execute.after": quietly(async ({ tool, sessionID, args }, output) => {
      // The tools of a server answer in parts; what they answer is left as it is.
      if (tool.startsWith("treering_") || (tool === "bash" && String(args?.command).includes("treering")))
        await call("asked", given("tool.execute.after", sessionID, { tool_input: args, tool_response: answerOf(output) }))
      if (typeof output.output !== "string") return
      let told = ""
      if (tool === "read") told = await call("edit", given("tool.execute.after", sessionID, { tool_input: args }))
      if (tool === "bash" && output.metadata?.exit) {
        const answered = { exit_code: output.metadata.exit, output: output.output.slice(-MOST_OUTPUT) }
        told = await call("failure", given("tool.execute.after", sessionID, { tool_response: answered }))
      }
      if (told) output.output += `\n\n${told}`
    }),
  }
}
