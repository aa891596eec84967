//! The cluster: its nodes, its stream and the servers of NATS.

use api::Api;
use api::types::{Cluster, ClusterNode, NatsServer, NodeState};
use axum::extract::State;
use maud::{Markup, html};

use crate::equal::Equal;
use crate::page::{Page, Result};
use crate::texts::Texts;
use crate::{bar, number};

const PATH: &str = "/cluster";

pub(crate) async fn page(State(api): State<Api>, texts: &'static Texts) -> Result {
    let cluster = api.cluster();
    let t = &texts.cluster;
    let contents = html! {
        div .title { h1 { (texts.frame.cluster) } }
        @if cluster.is_alone() {
            p .empty { (t.alone) }
        } @else {
            section #problems data-live { (problems(texts, &cluster)) }
            div .columns {
                section #lead data-live {
                    h2 { (t.lead) }
                    dl {
                        dt { (t.name) } dd { (cluster.name) }
                        dt { (t.leader) } dd { (cluster.leader) }
                        dt { (t.epoch) } dd { (number::count(cluster.epoch)) }
                        dt { (t.group) } dd { (number::count(cluster.group)) }
                        @if let Some(check) = &cluster.check {
                            dt { (t.check) }
                            dd {
                                @if check.safe { (t.safe) } @else { (t.unsafe_) }
                                " " small { ((t.ago)(&number::span(check.age_ms))) }
                            }
                        }
                    }
                }
                @if let Some(stream) = &cluster.stream {
                    section #stream data-live {
                        h2 { (t.stream) }
                        (bar::used(stream.bytes, stream.max_bytes.max(1), t.used))
                        dl {
                            dt { (t.name) } dd { (stream.name) }
                            dt { (t.size) } dd { (number::bytes(stream.bytes)) }
                            dt { (t.limit) } dd { (number::bytes(stream.max_bytes)) }
                            dt { (t.records) }
                            dd { ((t.from_to)(
                                &number::grouped(stream.first_record),
                                &number::grouped(stream.last_record),
                            )) }
                        }
                    }
                }
            }
            section #nodes data-live {
                h2 { (t.nodes) }
                div .scroll { (nodes(texts, &cluster.nodes)) }
            }
            section #nats data-live {
                h2 { (t.servers) }
                div .scroll { (servers(texts, &cluster.nats)) }
            }
            p .form {
                (t.to_check) " " code { "lineshaft cluster status" } " "
                (t.to_promote) " " code { "lineshaft cluster promote NODE" }
            }
        }
    };
    let equal = Equal::default().get(PATH, &[]);
    Ok(Page::new(&api, PATH, texts.frame.cluster, contents).equal_to(equal))
}

fn problems(texts: &Texts, cluster: &Cluster) -> Markup {
    let t = &texts.cluster;
    let silent = |node: &&ClusterNode| node.state == NodeState::Silent;
    html! {
        @for problem in cluster.check.iter().flat_map(|check| &check.problems) {
            p .banner .critical { (problem) }
        }
        @for node in cluster.nodes.iter().filter(silent) {
            p .banner .warning { ((t.node_is_silent)(&node.name, &number::span(node.silent_ms))) }
        }
        @for node in cluster.nodes.iter().filter(|node| !silent(node)) {
            @if let Some(problem) = &node.problem {
                p .banner .warning { strong { (node.name) } ": " (problem) }
            }
        }
    }
}

fn nodes(texts: &Texts, nodes: &[ClusterNode]) -> Markup {
    let t = &texts.cluster;
    html! {
        table .wide {
            caption .hidden { (t.nodes) }
            thead {
                tr {
                    th scope="col" { (t.node) }
                    th scope="col" { (t.state) }
                    th .num scope="col" { (t.group) }
                    th .num scope="col" { (t.durable) }
                    th .num scope="col" { (t.behind) }
                    th .num scope="col" { (texts.words.jobs) }
                    th scope="col" { (t.address) }
                    th scope="col" { (t.version) }
                }
            }
            tbody {
                @for node in nodes {
                    tr {
                        th .name scope="row" { (node.name) }
                        td {
                            @if node.state == NodeState::Silent {
                                span .mark .warning { (state(texts, NodeState::Silent)) }
                            } @else {
                                (state(texts, node.state))
                            }
                        }
                        td .num { (number::count(node.group)) }
                        td .num { (number::count(node.durable_group)) }
                        td .num {
                            (number::count_or_dash(node.lag_groups))
                            @if node.lag_ms > 0 { " " small { (number::span(node.lag_ms)) } }
                        }
                        td .num { (number::count_or_dash(node.jobs)) }
                        td { (node.address) }
                        td { (node.version) }
                    }
                }
            }
        }
    }
}

fn state(texts: &Texts, state: NodeState) -> &'static str {
    let [leads, follows, starts, silent] = texts.cluster.states;
    match state {
        NodeState::Leads => leads,
        NodeState::Follows => follows,
        NodeState::Starts => starts,
        NodeState::Silent => silent,
    }
}

fn servers(texts: &Texts, servers: &[NatsServer]) -> Markup {
    let t = &texts.cluster;
    let word = |is: bool| if is { texts.words.yes } else { texts.words.no };
    html! {
        table .wide {
            caption .hidden { (t.servers) }
            thead {
                tr {
                    th scope="col" { (t.server) }
                    th scope="col" { (t.state) }
                    th scope="col" { (t.flushes) }
                    th scope="col" { (t.replica) }
                    th scope="col" { (t.version) }
                }
            }
            tbody {
                @for server in servers {
                    tr {
                        th .name scope="row" { (server.name) }
                        td {
                            @if let Some(problem) = &server.problem {
                                span .mark .warning { (state(texts, NodeState::Silent)) } " " (problem)
                            } @else {
                                (t.answers)
                            }
                        }
                        td { @if let Some(flushes) = server.flushes { (word(flushes)) } }
                        td { @if let Some(has_replica) = server.has_replica { (word(has_replica)) } }
                        td { @if let Some(version) = &server.version { (version) } }
                    }
                }
            }
        }
    }
}
